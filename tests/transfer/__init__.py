"""Moving memories: export, import, backup, and the sessions of other programs."""
