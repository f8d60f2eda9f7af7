"""The codecs: undoing filters, decoding what only HDF5 can, and applying CF steps."""
