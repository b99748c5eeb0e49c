"""The ledger's engine: what a unit of writes means, the same for every store. Pure, without I/O."""
