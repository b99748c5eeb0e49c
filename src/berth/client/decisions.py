"""Decisions: where the instances of a request were placed, or why they were not."""

from collections.abc import Mapping
from typing import Final

from msgspec import field

from berth.client.operations import Group, K, operation
from berth.client.refusals import FilterCount, NoValidHostError, Refusal
from berth.client.requests import KEY_HEADER, Route, Steps, Value

PLACED: Final = "placed"
REFUSED: Final = "refused"


class ScoredHost(Value, frozen=True):
    """A host with its total score and, in parallel tuples, the contribution of each weigher."""

    host: str
    node: str
    score: float
    weighers: tuple[str, ...] = ()
    raw: tuple[float, ...] = ()
    normalised: tuple[float, ...] = ()
    multipliers: tuple[float, ...] = ()


class CellShare(Value, frozen=True):
    """The resources of one host NUMA cell that one guest NUMA cell has.

    `pinned` are (guest CPU, host CPU) pairs, memory is in MiB, and `page_size_kb` in KiB.
    """

    host_cell: int
    memory_mb: int
    page_size_kb: int | None = None
    shared_cpus: int = 0
    pinned: tuple[tuple[int, int], ...] = ()
    emulator_cpus: frozenset[int] = frozenset()
    idle_cpus: frozenset[int] = frozenset()


class DeviceShare(Value, frozen=True):
    """A number of devices from one pool of PCI devices."""

    pool: str
    count: int
    alias: str = ""


class Assignment(Value, frozen=True):
    """Hardware and child providers that an instance has on its host.

    `allocations` are amounts by provider and resource class, `root` those of the root provider
    (None if they are the amounts of the request), and `mappings` the providers by request group.
    """

    allocations: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict[str, Mapping[str, int]]
    )
    mappings: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    root: Mapping[str, int] | None = None
    numa: tuple[CellShare, ...] = ()
    devices: tuple[DeviceShare, ...] = ()


class Placement(Value, frozen=True):
    """The host chosen for one instance, and the runners-up.

    `candidates` counts the hosts that passed all filters. `alternates` are (host, node) pairs to
    try in this order if the build fails. Only administrators see names of hosts.
    """

    instance_uuid: str
    host: str
    node: str
    provider_uuid: str
    candidates: int
    chosen: ScoredHost
    runners_up: tuple[ScoredHost, ...] = ()
    alternates: tuple[tuple[str, str], ...] = ()
    assignment: Assignment | None = None


class ZoneCount(Value, frozen=True):
    """The number of a request's instances that a zone received."""

    zone: str
    instances: int


class Decision(Value, frozen=True):
    """The record of one decision; `verdict` is `placed` or `refused`.

    `decided_at_s` is Unix seconds, `duration_us` the time of planning in microseconds, and
    `amounts` are the needs of one instance by resource class.
    """

    request_id: str
    verdict: str
    policy_name: str
    policy_hash: str
    driver: str
    seed: int
    table_version: int
    decided_at_s: float
    duration_us: int
    project_id: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict[str, int])
    filters: tuple[FilterCount, ...] = ()
    placements: tuple[Placement, ...] = ()
    refusal: Refusal | None = None
    attempts: int = 1
    chosen_among: int = 1
    zones: tuple[ZoneCount, ...] = ()

    def raise_for_refusal(self) -> None:
        """Do nothing if the request was placed.

        Raises:
            NoValidHostError: the request was refused; the error has the reasons.
        """
        if self.refusal is not None:
            raise NoValidHostError(self.request_id, self.refusal)


class Counterfactual(Value, frozen=True):
    """The host that would have won had one weigher been disabled, with its score in that case."""

    weigher: str
    host: str
    node: str
    score: float


class TriedDecision(Decision, frozen=True):
    """A decision that claimed and stored nothing.

    `counterfactuals` has the best host without each weigher, for the first instance. With
    `is_partial`, child zones did not answer (`zones_missing`), so a create may find more room.
    """

    counterfactuals: tuple[Counterfactual, ...] = ()
    is_partial: bool = False
    zones_missing: tuple[str, ...] = ()


class DecisionList(Value, frozen=True):
    """The response with decisions."""

    decisions: tuple[Decision, ...]


_LIST: Final = Route(
    "GET", "/berth/v1/decisions", DecisionList, query=("limit", "verdict", "server")
)
_SHOW: Final = Route("GET", "/berth/v1/decisions/{request_id:path}", Decision, query=("server",))
_TRY: Final = Route(
    "POST",
    "/berth/v1/decide",
    TriedDecision,
    body=("server", "os:scheduler_hints"),
    headers=(KEY_HEADER,),
)


class Decisions(Group[K]):
    """Decisions on requests."""

    @operation
    def list(
        self, *, limit: int | None = None, verdict: str | None = None, server: str | None = None
    ) -> Steps[tuple[Decision, ...]]:
        """Return the newest decisions, the newest first.

        Args:
            limit: their maximum number; None for the service's default, 100.
            verdict: only decisions with this verdict, `placed` or `refused`.
            server: only decisions about the server with this uuid.
        """
        query = {"limit": limit, "verdict": verdict, "server": server}
        found = yield from _LIST.ask(query=query)
        return found.decisions

    @operation
    def explain(self, request_id: str, *, server: str | None = None) -> Steps[Decision]:
        """Return the decision on a request, with its reasons.

        Args:
            request_id: the id of the decision or of the request, or the uuid of one of its servers.
            server: the uuid of a server of the request, which finds it in child zones.
        """
        return _SHOW.ask(query={"server": server}, request_id=request_id)

    @operation
    def decide(  # noqa: PLR0913 - what a create takes, by name
        self,
        flavor: str,
        *,
        count: int = 1,
        image: str | None = None,
        availability_zone: str | None = None,
        hints: Mapping[str, object] | None = None,
        server: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[TriedDecision]:
        """Return the decision that a create would get; nothing is claimed or stored.

        A refusal is a result, not an error; call `raise_for_refusal` to raise one.

        Args:
            flavor: the id of the flavor.
            count: the number of servers.
            image: the id of the image.
            availability_zone: the availability zone; None for any.
            hints: scheduler hints.
            server: further fields of the `server` of a create, in the names of the compute API.
            idempotency_key: the key with which the create will be sent; with it, both decide alike
                if nothing changes in between.
        """
        asked: dict[str, object] = {"name": "decide", "flavorRef": flavor, "min_count": count}
        optional = {"imageRef": image, "availability_zone": availability_zone}
        asked |= {name: value for name, value in optional.items() if value is not None}
        body: dict[str, object] = {"server": asked | dict(server or {})}
        if hints is not None:
            body["os:scheduler_hints"] = hints
        return _TRY.ask(body=body, headers={KEY_HEADER: idempotency_key})

    @operation
    def decide_create(
        self, body: Mapping[str, object], *, idempotency_key: str | None = None
    ) -> Steps[TriedDecision]:
        """Return the decision on the body of a create, `POST /v2.1/servers` in any version.

        Args:
            body: the body, with `server` and perhaps `os:scheduler_hints`.
            idempotency_key: see `decide`.
        """
        return _TRY.ask(body=body, headers={KEY_HEADER: idempotency_key})
