"""The replica: this process's tables, kept up to date by the ledger's change feed."""
