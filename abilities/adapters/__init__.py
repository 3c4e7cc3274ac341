"""One thin module per surface or framework.

Each is imported by its own path, so that its dependencies stay optional.
"""
