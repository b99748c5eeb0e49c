"""Use cases about the fleet: hosts, aggregates, allocation ratios, attestation, write-offs."""
