"""The shared store: a PostgreSQL database, for any number of machines."""
