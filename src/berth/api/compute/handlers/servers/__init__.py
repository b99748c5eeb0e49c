"""Handlers for requests to create, list, change and move servers, here and in child zones."""
