"""The memory explorer: a page on which people look at an agent's memories, notes and files.

The page itself is in `static/`. It calls abilities as any other client does, and in addition the
internal abilities in `views`.
"""
