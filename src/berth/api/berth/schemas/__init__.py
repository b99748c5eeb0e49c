"""Queries, request bodies and response bodies of Berth's own API."""
