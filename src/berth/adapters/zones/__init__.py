"""The HTTP client for child zones."""

from berth.adapters.zones.http_children import open_children

__all__ = ["open_children"]
