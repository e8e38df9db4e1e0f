"""MCP: servers as tool sources, and an agent as a server."""
