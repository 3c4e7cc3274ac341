"""Gather what the items of a mixed batch name, and share one reply among them."""
