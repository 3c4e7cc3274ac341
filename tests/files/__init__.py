"""Files: confinement, reading, listing, failures."""
