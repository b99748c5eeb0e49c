"""The adapter that keeps the ledger in PostgreSQL."""
