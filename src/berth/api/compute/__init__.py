"""The compute API, compatible with Nova's for OpenStack clients."""
