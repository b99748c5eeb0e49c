"""The adapter that keeps the ledger in a SQLite file."""
