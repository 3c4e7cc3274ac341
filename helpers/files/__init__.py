"""Files: resolved in two roots, confined, bounded, read and listed."""
