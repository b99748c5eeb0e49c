"""Checks of policies, flavors and aggregates for settings that cannot be meant."""
