"""The store for many processes: a PostgreSQL database."""
