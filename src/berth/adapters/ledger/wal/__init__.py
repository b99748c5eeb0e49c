"""The write-ahead log of the SQLite ledger, and the reads that the SQL ledgers share."""
