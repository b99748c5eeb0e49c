"""The write-ahead log of the SQLite ledger, and reads of tables that may lag behind it."""
