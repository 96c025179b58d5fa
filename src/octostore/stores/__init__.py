"""Stores: load what commands need, let the core decide, save what changed, in one transaction. No rules here."""
