"""Checks of policies, flavors and aggregates for settings that are probably not intended."""
