"""The ledger's engine: what a unit of writes means, for every ledger alike. Pure, without I/O."""
