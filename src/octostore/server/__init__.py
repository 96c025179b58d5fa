"""The HTTP server: parse, call the store, answer. No rules."""
