"""Other readers and a store: what is in the files they refuse, what is in the store they read."""
