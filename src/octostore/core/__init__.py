"""The rules of ownership, as pure code: no I/O, no clock, no randomness, no SQL.

A store loads rows into a `WorkingSet`, hands it to `decide` with a command, and saves what changed. Every rule lives
here exactly once, so every store and every surface behaves the same.
"""
