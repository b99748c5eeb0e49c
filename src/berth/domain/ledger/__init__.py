"""The vocabulary of the ledger: records, writes, changes and discrepancies."""
