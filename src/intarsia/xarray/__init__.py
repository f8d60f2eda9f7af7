"""The side that xarray users see: opening, combining, the accessor, the backend, lazy arrays."""
