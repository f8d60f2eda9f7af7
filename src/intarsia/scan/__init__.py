"""Scanning: from a file to virtual arrays, without reading values."""
