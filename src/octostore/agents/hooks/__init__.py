"""What a client's hooks get told and say: its payloads, its form of answers, and what is remembered of its session.

A hook answers at once, whatever the store does. It only looks itself; what is written to the store, a detached child
writes.
"""
