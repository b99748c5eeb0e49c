"""The engine of the ledger: code without I/O that applies units in the same way for every store."""
