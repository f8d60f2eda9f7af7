"""Bytes from where sources live: pins, ranges, and what was read."""
