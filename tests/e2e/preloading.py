"""Loads what the `openstack` program would load at each start, once and before it is forked.

The virtualenvs of OpenStack's clients run this.
"""

import gc
from importlib.metadata import entry_points

from cliff import command as _command  # type: ignore[import-not-found] # the virtualenvs have them
from stevedore import ExtensionManager

GROUPS = ("openstack.", "cliff.", "keystoneauth1.")
"""Prefixes of the groups of entry points that the program loads."""


def preload() -> None:
    """Load all plugins, and fill the libraries' caches of installed packages."""
    for group in entry_points().groups:
        if group.startswith(GROUPS):
            ExtensionManager(group)
    _command._get_distributions_by_modules()
    gc.freeze()  # keeps collections in a fork from copying these pages
