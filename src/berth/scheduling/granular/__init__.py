"""Granular requests: what the providers of a host's tree give to the groups of a request."""
