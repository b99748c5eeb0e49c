"""The status of a process, the policy in force, and the state of the fleet."""

from collections.abc import Mapping
from typing import Any, Final

from berth.client.operations import Group, K, operation, streaming
from berth.client.requests import Request, Route, Steps, Value


class HostCounts(Value, frozen=True):
    """Numbers of hosts by the state of their service; a disabled host is neither up nor down."""

    total: int
    up: int
    down: int
    disabled: int
    uncertain: int


class InstanceCounts(
    Value, frozen=True, rename={"build": "BUILD", "active": "ACTIVE", "error": "ERROR"}
):
    """Numbers of instances; at most 1,000 in ERROR are counted."""

    build: int
    active: int
    error: int


class Status(Value, frozen=True):
    """Versions, counts, replication lag and policy of the process that answered.

    `lag` is the number of ledger versions that it has not applied yet. `policy_error` says why the
    policy file's current content is not in force, or is None.
    """

    version: str
    api_version_min: str
    api_version_max: str
    ledger_version: int
    replica_version: int
    lag: int
    uptime_s: float
    hosts: HostCounts
    instances: InstanceCounts
    pending_requests: int
    policy_name: str
    policy_hash: str
    policy_error: str | None


class Weigher(Value, frozen=True):
    """A weigher of the policy with its multiplier."""

    name: str
    multiplier: float


class PolicyInForce(Value, frozen=True):
    """The policy in force; `last_error` says why a newer file is not, or is None."""

    name: str
    hash: str
    driver: str
    host_subset_size: int
    contended_subset_size: int
    shuffle_best_same_weighed_hosts: bool
    runners_up: int
    filters: tuple[str, ...]
    weighers: tuple[Weigher, ...]
    last_error: str | None


class PolicyReload(Value, frozen=True):
    """Whether a reload has put a changed policy into force, and the policy now in force."""

    changed: bool
    policy: PolicyInForce


class State(Value, frozen=True):
    """The state as of one version of the ledger, at the Unix time `now_s`.

    Its records are JSON objects in the form of a state file, which depends on `format`.
    """

    version: int
    now_s: float
    hosts: tuple[Mapping[str, Any], ...] = ()
    providers: tuple[Mapping[str, Any], ...] = ()
    services: tuple[Mapping[str, Any], ...] = ()
    aggregates: tuple[Mapping[str, Any], ...] = ()
    server_groups: tuple[Mapping[str, Any], ...] = ()
    flavors: tuple[Mapping[str, Any], ...] = ()
    instances: tuple[Mapping[str, Any], ...] = ()
    migrations: tuple[Mapping[str, Any], ...] = ()
    pending_requests: tuple[Mapping[str, Any], ...] = ()
    resource_classes: tuple[Mapping[str, Any], ...] = ()
    traits: tuple[Mapping[str, Any], ...] = ()
    quotas: tuple[Mapping[str, Any], ...] = ()
    zones: tuple[Mapping[str, Any], ...] = ()
    host_identities: tuple[Mapping[str, Any], ...] = ()
    server_images: tuple[Mapping[str, Any], ...] = ()
    format: str = "berth-state/1"


STATUS: Final = Route("GET", "/berth/v1/status", Status)
_SHOW: Final = Route("GET", "/berth/v1/policy", PolicyInForce)
_RELOAD: Final = Route("POST", "/berth/v1/policy/reload", PolicyReload)
_STATE: Final = Route("GET", "/berth/v1/state", State)


class Policy(Group[K]):
    """The policy of decisions, for administrators."""

    @operation
    def get(self) -> Steps[PolicyInForce]:
        """Return the policy in force."""
        return _SHOW.ask()

    @operation
    def reload(self) -> Steps[PolicyReload]:
        """Reload the policy file now.

        Raises:
            BadRequestError: the file is invalid, and the previous policy stays in force.
        """
        return _RELOAD.ask()


class FleetState(Group[K]):
    """The state of the fleet, for administrators."""

    @operation
    def get(self) -> Steps[State]:
        """Return the state; for a large fleet it has hundreds of megabytes, so prefer `stream`."""
        return _STATE.ask()

    @streaming
    def stream(self) -> Request:
        """Open the state as a stream of bytes, to save it without keeping it in memory."""
        return _STATE.request()
