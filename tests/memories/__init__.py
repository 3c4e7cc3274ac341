"""Memories: the abilities, the walk, the specifications."""
