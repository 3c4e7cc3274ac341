"""Moving memories: import, export, backup, restore and check."""
