"""Batches: their items are gathered and share one reply, such as that of `read`."""
