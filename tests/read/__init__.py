"""`read`, the mixed batch."""
