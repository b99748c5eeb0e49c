"""Records, writes, changes and discrepancies: the vocabulary of the ledger."""
