"""Manages the fleet: hosts, aggregates, allocation ratios, attestation and write-offs."""
