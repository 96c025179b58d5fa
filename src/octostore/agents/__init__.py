"""Coding agents: their clients' settings (`setup`), their skill (`skill`), and their hooks (`hooks`)."""
