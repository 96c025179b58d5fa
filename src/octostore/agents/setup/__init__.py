"""One line of set-up for a client: what belongs in its files, and how to put it there and take it out again."""
