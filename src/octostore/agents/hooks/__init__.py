"""A client's hooks: its payloads, the form of its replies, and what is remembered about its session.

A hook replies immediately, whatever the store does. It only reads; a detached child writes to the store.
"""
