"""HDF5 and netCDF-4 files: what is in them, and where its bytes lie."""

from intarsia.scan.hdf5.scanning import scan, scan_groups

__all__ = ["scan", "scan_groups"]
