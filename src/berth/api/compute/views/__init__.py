"""How the nouns of the domain are written for clients of the compute API."""
