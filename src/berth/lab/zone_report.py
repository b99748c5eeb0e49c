"""The report of the zones demo: each instance's zone and why it was chosen, and contradictions."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from berth.domain.compute.decision import Decision, ScoredHost
from berth.lab.zone_snapshots import ZoneSnapshot, faults_of, read_snapshots
from berth.lab.zone_tenant import RequestOutcome, TenantRefusal, TreeTenant
from berth.lab.zone_tree import ZoneTree

Json = dict[str, Any]

_GOOD: Final = "ACTIVE"


@dataclass(frozen=True, slots=True)
class ZoneShare:
    """The state of one zone at the end of the demo.

    `weight_most` and `weight_least` are the greatest and the least score of a chosen host at the
    time of its choice, or None if no choice is known.
    """

    name: str
    parent: str | None
    level: int
    hosts: int
    vcpus: int
    vcpus_used: int
    instances: int
    weight_most: float | None
    weight_least: float | None
    discrepancies: int


@dataclass(frozen=True, slots=True)
class ZoneChoices:
    """One zone's part of a request: the number of instances, and the best and the worst host."""

    zone: str
    instances: int
    first: ScoredHost
    last: ScoredHost


@dataclass(frozen=True, slots=True)
class ExplainedRequest:
    """A request with the root's decision and the choices of each zone, best first."""

    request: RequestOutcome
    decision: Decision
    parts: Sequence[ZoneChoices]


@dataclass(frozen=True, slots=True)
class ListedServer:
    """One line of a server list, with the server's zone."""

    uuid: str
    name: str
    status: str
    zone: str


@dataclass(frozen=True, slots=True)
class ListedReservation:
    """The root's list of the servers of one reservation."""

    reservation_id: str
    took_s: float
    servers: Sequence[ListedServer]


@dataclass(frozen=True, slots=True)
class ZoneReport:
    """The report of the whole demo; `faults` lists contradictions and must be empty."""

    zones: Sequence[ZoneShare]
    requests: Sequence[RequestOutcome]
    instances: int
    instances_by_level: Sequence[int]
    explained: ExplainedRequest | None
    refused: TenantRefusal | None
    listed: ListedReservation | None
    faults: Sequence[str]
    started_s: float
    placed_s: float


@dataclass(frozen=True, slots=True)
class DemoRun:
    """The requests of a demo, and the seconds that starting zones and placing requests took."""

    outcomes: Sequence[RequestOutcome]
    refused: TenantRefusal | None
    started_s: float
    placed_s: float


def report_on(tenant: TreeTenant, tree: ZoneTree, done: DemoRun) -> ZoneReport:
    """Wait until all placed instances are built, and return the report on all zones.

    If the instances of a request are not built within two minutes, they are reported as they are.

    Raises:
        UnavailableError: a zone refuses a request or does not answer.
    """
    placed = [one for one in done.outcomes if one.is_placed]
    servers = {one.reservation_id: tenant.servers_of(one) for one in placed}
    # Snapshots are read after all servers are built, so no zone changes between two of them.
    books = read_snapshots(tree)
    zones = [share_of(book) for book in books.values()]
    outcomes = [with_zones(one, books.values()) for one in done.outcomes]
    levels = range(1 + max(zone.level for zone in zones))
    shown = widest(outcomes)
    return ZoneReport(
        zones=zones,
        requests=outcomes,
        instances=sum(zone.instances for zone in zones),
        instances_by_level=[
            sum(zone.instances for zone in zones if zone.level == level) for level in levels
        ],
        explained=None if shown is None else _explained(tenant, shown, books),
        refused=done.refused,
        listed=None if shown is None else _listed(tenant, shown, books),
        faults=check(outcomes, servers, books),
        started_s=done.started_s,
        placed_s=done.placed_s,
    )


def _explained(
    tenant: TreeTenant, shown: RequestOutcome, books: Mapping[str, ZoneSnapshot]
) -> ExplainedRequest:
    decision = tenant.decision_of(shown.request_id)
    return ExplainedRequest(shown, decision, parts_of(shown, books.values()))


def _listed(
    tenant: TreeTenant, shown: RequestOutcome, books: Mapping[str, ZoneSnapshot]
) -> ListedReservation:
    zone_of = {uuid: book.zone for book in books.values() for uuid in book.instances}
    began_s = time.monotonic()
    servers = tenant.servers_of(shown)
    return ListedReservation(
        reservation_id=shown.reservation_id,
        took_s=time.monotonic() - began_s,
        servers=[
            ListedServer(one["id"], one["name"], one["status"], zone_of.get(one["id"], "nowhere"))
            for one in servers
        ],
    )


def with_zones(outcome: RequestOutcome, books: Iterable[ZoneSnapshot]) -> RequestOutcome:
    """Return the outcome of a request with its number of instances in each zone."""
    counts = {
        book.zone: sum(
            one.reservation_id == outcome.reservation_id for one in book.instances.values()
        )
        for book in books
    }
    return replace(outcome, zones={zone: count for zone, count in counts.items() if count})


def widest(outcomes: Iterable[RequestOutcome]) -> RequestOutcome | None:
    """Return the placed request in the greatest number of zones, or None if none was placed.

    Of several such requests, the largest is returned.
    """
    placed = (one for one in outcomes if one.is_placed)
    return max(placed, key=lambda one: (len(one.zones), one.count), default=None)


def share_of(book: ZoneSnapshot) -> ZoneShare:
    """Return the summary of a zone's snapshot."""
    scores = [book.chosen[uuid].score for uuid in book.instances if uuid in book.chosen]
    return ZoneShare(
        name=book.zone,
        parent=book.parent,
        level=book.level,
        hosts=book.hosts,
        vcpus=book.vcpus,
        vcpus_used=book.vcpus_used,
        instances=len(book.instances),
        weight_most=max(scores, default=None),
        weight_least=min(scores, default=None),
        discrepancies=len(book.wrong),
    )


def parts_of(outcome: RequestOutcome, books: Iterable[ZoneSnapshot]) -> list[ZoneChoices]:
    """Return the choices of each zone for a request, best first."""
    found: list[ZoneChoices] = []
    for book in books:
        uuids = [
            uuid
            for uuid, one in book.instances.items()
            if one.reservation_id == outcome.reservation_id and uuid in book.chosen
        ]
        if uuids:
            chosen = sorted((book.chosen[uuid] for uuid in uuids), key=_score, reverse=True)
            found.append(ZoneChoices(book.zone, len(uuids), chosen[0], chosen[-1]))
    return sorted(found, key=lambda part: part.first.score, reverse=True)


def _score(host: ScoredHost) -> float:
    return host.score


def check(
    outcomes: Iterable[RequestOutcome],
    servers: Mapping[str, Sequence[Json]],
    books: Mapping[str, ZoneSnapshot],
) -> list[str]:
    """Return the contradictions between requests, the root's lists and the zones' snapshots.

    Args:
        outcomes: the outcomes of all requests.
        servers: the root's servers of each placed reservation.
        books: the snapshots of all zones.
    """
    wanted = {one.reservation_id: one.count for one in outcomes if one.is_placed}
    faults = faults_of(books.values(), wanted)
    by_reservation: dict[str, set[str]] = {}
    for book in books.values():
        for uuid, one in book.instances.items():
            by_reservation.setdefault(one.reservation_id, set()).add(uuid)
    for reservation_id, listed in servers.items():
        if {one["id"] for one in listed} != by_reservation.get(reservation_id, set()):
            faults.append(f"the root's servers of {reservation_id} differ from those of the zones")
        statuses = Counter(one["status"] for one in listed if one["status"] != _GOOD)
        faults += [f"{n} servers of {reservation_id} are {name}" for name, n in statuses.items()]
    return faults
