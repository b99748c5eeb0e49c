"""Observed records: hosts and servers that another cloud runs, and that Berth only knows.

`berth import nova` writes them. They make Berth's capacity and lists complete while Nova still runs
the servers; no agent of Berth may act on them (docs/adr/0042-importing-from-nova.md).

The mark is a field of `Host.stats` and of `Instance.extra`, with the name of the other cloud as the
value, so records that earlier versions wrote are read as not observed.
"""

from typing import Final

from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance
from berth.domain.errors import ConflictError

OBSERVED_IN: Final = "observed_in"
"""The key of the mark in `Host.stats` and `Instance.extra`."""

NOVA: Final = "nova"
"""The value of the mark of what was imported from Nova."""


class ObservedServerError(ConflictError):
    """An operation would act on a server that another cloud runs.

    Args:
        instance: the observed server.
    """

    def __init__(self, instance: Instance) -> None:
        cloud = observer_of(instance)
        super().__init__(
            f"Instance {instance.uuid} is run by {cloud} and only observed here; do this in "
            f"{cloud}, then run `berth import {cloud}` again"
        )
        self.instance = instance


def observer_of(record: Host | Instance) -> str | None:
    """Return the name of the cloud that runs a host or a server; None if Berth runs it."""
    marks = record.stats if isinstance(record, Host) else record.extra
    cloud = marks.get(OBSERVED_IN)
    return None if cloud is None else str(cloud)


def is_observed(record: Host | Instance) -> bool:
    """Return whether another cloud runs a host or a server."""
    return observer_of(record) is not None


def check_not_observed(instance: Instance) -> None:
    """Reject an operation on a server that another cloud runs.

    Raises:
        ObservedServerError: the server is observed.
    """
    if is_observed(instance):
        raise ObservedServerError(instance)
