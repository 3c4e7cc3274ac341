"""The served application: abilities over HTTP and MCP from one port, behind one guard."""
