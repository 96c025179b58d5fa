"""A server as a port: the same calls, over HTTP."""
