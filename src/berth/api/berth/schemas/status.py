"""The process and its policy, as Berth's own API writes them."""

from berth.api.codec import View


class HostCounts(View):
    """Hosts by the state of their service; a disabled one is not counted as up or down."""

    total: int
    up: int
    down: int
    disabled: int


class InstanceCounts(View, rename={"build": "BUILD", "active": "ACTIVE", "error": "ERROR"}):
    """Instances by status. ERROR counts the newest thousand only."""

    build: int
    active: int
    error: int


class StatusAnswer(View):
    """What this process says about itself."""

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


class WeigherName(View):
    """A weigher of the policy."""

    name: str
    multiplier: float


class PolicyAnswer(View):
    """The policy in force. `last_error` says why the file as it is now is not."""

    name: str
    hash: str
    driver: str
    host_subset_size: int
    contended_subset_size: int
    shuffle_best_same_weighed_hosts: bool
    runners_up: int
    filters: list[str]
    weighers: list[WeigherName]
    last_error: str | None


class ReloadAnswer(View):
    """Whether a changed policy came into force, and the one that is."""

    changed: bool
    policy: PolicyAnswer
