"""The store: a saved view of many files, small, and open to any Zarr reader where it can be."""
