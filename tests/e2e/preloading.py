"""What the `openstack` program looks for at each start, looked for once, before it is forked.

Virtualenvs of OpenStack's clients run this.
"""

import gc
from importlib.metadata import entry_points

from cliff import command as _command  # type: ignore[import-not-found] # the virtualenvs have them
from stevedore import ExtensionManager  # type: ignore[import-not-found]

GROUPS = ("openstack.", "cliff.", "keystoneauth1.")
"""What the names of groups of entry points begin with, which the program loads."""


def preload() -> None:
    """Load all plugins, and have the libraries keep in mind what they found of packages."""
    for group in entry_points().groups:
        if group.startswith(GROUPS):
            ExtensionManager(group)
    _command._get_distributions_by_modules()
    gc.freeze()  # so that no fork copies what it only looks at
