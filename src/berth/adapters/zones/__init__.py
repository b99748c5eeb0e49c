"""Child zones over HTTP."""

from berth.adapters.zones.http_children import open_children

__all__ = ["open_children"]
