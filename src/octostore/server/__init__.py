"""The HTTP server: parse, call the store, respond. No rules."""
