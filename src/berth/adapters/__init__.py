"""Adapters: what fulfils the ports with real stores, buses and drivers."""
