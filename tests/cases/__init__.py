"""Whether values are right: one module per kind of difference between files."""
