"""Imports what another cloud knows into the ledger."""
