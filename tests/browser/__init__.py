"""The explorer in a real browser: `make browser`."""
