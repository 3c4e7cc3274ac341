"""Stores of memories: their protocol, what they share, and the stores themselves."""
