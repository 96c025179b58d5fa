"""One command to set up a client: what belongs in its files, and how to add and remove it."""
