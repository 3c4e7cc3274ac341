"""What `make conformance` runs: MCP's conformance tool and the Inspector, on real servers."""
