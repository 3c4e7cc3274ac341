"""Stores of memories: the protocols, the shared store over SQL, and an engine per database."""
