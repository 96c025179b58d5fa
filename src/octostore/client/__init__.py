"""The library: one interface, whichever store the URL names."""
