"""Coding agents: their clients' settings (`setup`), their skill (`skill`), and what their hooks say (`hooks`)."""
