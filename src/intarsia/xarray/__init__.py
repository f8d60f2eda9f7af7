"""The side that xarray users see: opening, combining, the accessor, the backend, lazy arrays.

xarray imports the chunk manager whenever it meets a lazy array of any kind; nothing else is
imported with it.
"""
