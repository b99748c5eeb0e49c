"""The compute API, which is compatible with Nova's."""
