"""Surfaces: Python, LangChain, MCP, HTTP, the command line, the explorer."""
