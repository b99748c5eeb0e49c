"""Handlers of servers: creating, listing, changing and moving them."""
