"""Request and response bodies of the compute API."""
