"""Benchmarks: Intarsia beside other ways to read the same files. Run ``python -m bench``."""
