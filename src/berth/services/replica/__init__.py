"""The replica: the tables of a process, which the ledger's change feed keeps up to date."""
