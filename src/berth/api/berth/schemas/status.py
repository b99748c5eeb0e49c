"""Response bodies for the status and the policy of a process."""

from berth.api.codec import View


class HostCounts(View):
    """Numbers of hosts by the state of their service; a disabled host is neither up nor down.

    `uncertain` is the number of hosts that fell silent together, if they are so many that they may
    still be up.
    """

    total: int
    up: int
    down: int
    disabled: int
    uncertain: int


class InstanceCounts(View, rename={"build": "BUILD", "active": "ACTIVE", "error": "ERROR"}):
    """Numbers of instances; at most 1,000 in ERROR are counted.

    `build` counts the instances that wait for a decision or load disks, and `active` all others on
    hosts.
    """

    build: int
    active: int
    error: int


class StatusAnswer(View):
    """Versions, counts, replication lag and policy of the answering process.

    `lag` is the number of ledger versions that the replica has not applied. `policy_error` is the
    reason why the policy file's current content is not in force, or null.
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


class WeigherName(View):
    """A weigher of the policy with its multiplier."""

    name: str
    multiplier: float


class PolicyAnswer(View):
    """The policy in force.

    `last_error` is the reason why the file's current content is not in force, or null.
    """

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
    """Whether the reload put a changed policy into force, and the policy that is now in force."""

    changed: bool
    policy: PolicyAnswer
