"""One thin module per surface.

Each is imported by its path, so that its dependencies stay optional.
"""
