"""Berth's own API: decisions, capacity, hosts, audits, the state and the policy."""
