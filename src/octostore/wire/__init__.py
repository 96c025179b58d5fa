"""The HTTP format that server and client share: request bodies, responses, errors, tokens."""
