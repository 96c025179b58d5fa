"""The command line: parse, call the library, print. No rule lives here."""
