"""Handlers that create, list, change and move servers, in this zone and in child zones."""
