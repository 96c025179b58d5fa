"""The tools at a server's `/mcp`: the process keeps nothing, so any server on the same store can respond."""
