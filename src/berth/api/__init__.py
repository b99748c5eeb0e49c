"""The HTTP API: the compute API that OpenStack's clients speak, and Berth's own."""
