"""Offers of a zone: making, sealing, holding, merging and releasing them."""
