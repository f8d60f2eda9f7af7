"""netCDF3 files (CDF-1, CDF-2, CDF-5), by their header."""

from intarsia.scan.netcdf3.scanning import scan, scan_groups

__all__ = ["scan", "scan_groups"]
