"""Adapters, which implement the ports with real stores, buses and drivers."""
