"""Offers: what the hosts of a zone and of the zones below it would give to a request."""
