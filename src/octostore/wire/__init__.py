"""What goes over HTTP, as both sides know it: bodies, answers, errors, tokens."""
