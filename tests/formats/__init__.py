"""Formats and what can be stored in them: one file for each, what becomes of it, and the table."""
