"""How MCP clients are configured: where, in which form, and how their files are edited safely."""
