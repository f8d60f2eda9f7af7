"""What is described as Zarr arrays are: folders, references, what parsers of others give."""
