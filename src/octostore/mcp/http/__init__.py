"""The tools at `/mcp` of a server: nothing is kept in the process, so any server on the same store can answer."""
