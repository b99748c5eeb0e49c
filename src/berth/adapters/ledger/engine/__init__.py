"""The engine of the ledger: code without I/O that applies units of writes alike for every store."""
