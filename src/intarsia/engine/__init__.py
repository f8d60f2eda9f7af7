"""From segments to values: plan what to read, read it coalesced, decode it in batches."""
