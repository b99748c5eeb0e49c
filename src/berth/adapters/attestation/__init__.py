"""Attestation services."""
