"""Batches: what their items name is gathered, and one reply is shared among them."""
