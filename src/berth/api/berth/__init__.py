"""Berth's own API: decisions, capacity, hosts, the state, and the policy."""
