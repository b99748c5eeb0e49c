"""Alembic migrations of the SQL ledgers."""
