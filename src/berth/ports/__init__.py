"""Protocols that the services need and adapters fulfil; nothing here does anything."""
