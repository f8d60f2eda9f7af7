"""Differences, decisions and reports on hand-made summaries: no file is opened."""
