"""Files: find them in two roots, never outside of these, and read or list them within bounds."""
