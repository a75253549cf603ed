"""The playground as tools of a coding agent: an MCP server at /mcp."""
