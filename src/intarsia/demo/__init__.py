"""What `intarsia demo` does: unlike files made, combined, compared bit for bit, and drawn."""
