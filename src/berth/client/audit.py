"""The audit: discrepancies in the ledger, and their repairs."""

from collections.abc import Mapping
from typing import Final

from msgspec import field

from berth.client.operations import Group, K, operation
from berth.client.requests import Route, Steps, Value


class RepairOutcome(Value, frozen=True):
    """The outcome of a repair in words, and the version that made it; None if it was not made."""

    text: str
    version: int | None = None


class Discrepancy(Value, frozen=True):
    """One inconsistency; `kind` and `key` identify the record, `code` says what is wrong.

    `since_s` is Unix seconds. `lost` are the amounts that nothing can use because of it, by class;
    `held` and `needed` are amounts by provider and class. `mend` is the repair that an audit can
    make, `free` or `claim`, and `outcome` is its result.
    """

    code: str
    kind: str
    key: str
    text: str
    advice: str
    host: str | None = None
    since_s: float | None = None
    lost: Mapping[str, int] = field(default_factory=dict[str, int])
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    needed: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    mend: str | None = None
    outcome: RepairOutcome | None = None

    @property
    def is_repaired(self) -> bool:
        """Whether the audit has repaired it."""
        return self.outcome is not None and self.outcome.version is not None


class AuditScope(Value, frozen=True):
    """The numbers of records that an audit examined."""

    hosts: int
    providers: int
    instances: int
    migrations: int
    consumers: int
    pending_requests: int


class Consumer(Value, frozen=True):
    """A holder of allocations that a client of the Placement API created."""

    uuid: str
    project_id: str
    user_id: str
    consumer_type: str | None = None
    generation: int = 0
    created_at_s: float = 0.0
    updated_at_s: float = 0.0


class ConsumerAllocations(Value, frozen=True):
    """A consumer and the amounts that it holds, by provider and class."""

    consumer: Consumer
    allocations: Mapping[str, Mapping[str, int]]


class HostNotice(Value, frozen=True):
    """A fault that the agent of a host found or repaired, at a Unix time."""

    code: str
    key: str
    text: str
    at_s: float


class AuditReport(Value, frozen=True):
    """The findings of an audit of the ledger as of `version`.

    `lost` sums the amounts of all discrepancies that are not repaired. `others` are consumers of
    the Placement API, which are no discrepancies. With `is_cut` there are more discrepancies.
    `mended_by_agents` has the latest repairs by host.
    """

    version: int
    audited_at_s: float
    audited: AuditScope
    discrepancies: tuple[Discrepancy, ...]
    lost: Mapping[str, int]
    others: tuple[ConsumerAllocations, ...] = ()
    others_total: int = 0
    is_cut: bool = False
    mended_by_agents: Mapping[str, tuple[HostNotice, ...]] = field(
        default_factory=dict[str, tuple[HostNotice, ...]]
    )


_QUERY: Final = ("host", "grace_s", "task_s", "request_s")
_SHOW: Final = Route("GET", "/berth/v1/audit", AuditReport, query=_QUERY)
_MEND: Final = Route("POST", "/berth/v1/audit", AuditReport, query=_QUERY)


class Audit(Group[K]):
    """The audit of the ledger, for administrators.

    Records that are younger than the ages are left out, because they are usually operations in
    progress: `grace_s` applies to most, `task_s` to tasks, `request_s` to pending requests. None
    stands for the service's default.
    """

    @operation
    def report(
        self,
        *,
        host: str | None = None,
        grace_s: float | None = None,
        task_s: float | None = None,
        request_s: float | None = None,
    ) -> Steps[AuditReport]:
        """Return the discrepancies in the ledger, or only those of one host."""
        query = {"host": host, "grace_s": grace_s, "task_s": task_s, "request_s": request_s}
        return _SHOW.ask(query=query)

    @operation
    def mend(
        self,
        *,
        host: str | None = None,
        grace_s: float | None = None,
        task_s: float | None = None,
        request_s: float | None = None,
    ) -> Steps[AuditReport]:
        """Make the safe repairs, and return the discrepancies with the outcomes."""
        query = {"host": host, "grace_s": grace_s, "task_s": task_s, "request_s": request_s}
        return _MEND.ask(query=query)
