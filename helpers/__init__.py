"""The implementation: files, text, replies, memory, stores, transfer.

Nothing here knows of an ability or a surface.
"""
