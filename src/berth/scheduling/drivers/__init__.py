"""Drivers: ways to make a plan, chosen by the policy."""
