"""Backends for deepagents: files to read, and memories as files to read and write."""

from abilities.errors import Needs

with Needs("deepagents"):
    from abilities.adapters.deepagents.backend import FileBackend, create_backend
    from abilities.adapters.deepagents.memories import MemoryBackend

__all__ = ["FileBackend", "MemoryBackend", "create_backend"]
