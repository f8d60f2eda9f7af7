"""Parsers of others, and what has to be known of each: how it is called, and what it gets wrong."""
