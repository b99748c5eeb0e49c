"""Berth decides which host each instance runs on, claims capacity, and starts it there."""

from berth.former_names import install as _install_former_names

__version__ = "0.1.0"

_install_former_names()
