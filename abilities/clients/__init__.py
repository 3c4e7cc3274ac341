"""The configuration of MCP clients: its places and forms, and safe edits of its files."""
