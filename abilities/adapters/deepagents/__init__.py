"""Backends of deepagents: files of both roots to read, and memories as files to write."""

from abilities.errors import Needs

with Needs("deepagents"):
    from abilities.adapters.deepagents.backend import FileBackend, create_backend
    from abilities.adapters.deepagents.memories import MemoryBackend

__all__ = ["FileBackend", "MemoryBackend", "create_backend"]
