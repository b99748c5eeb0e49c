"""Replaying: a workload's requests against a running Berth, checked by an independent book.

The books know the fleet and what was placed where, and share no code with the scheduler. Every
placement is entered, and every refusal is proven: no host of the books had the room.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from berth.domain.compute.needs import Needs, needs_of
from berth.domain.errors import BerthError
from berth.lab.auditor import AuditError, Auditor, DeviceRequest, DeviceShare
from berth.lab.report import ReplayRefusal, ReplayReport, RequestTimes, summarise
from berth.lab.service_client import Json, ServiceClient, ServiceConnection
from berth.lab.workload import Arrival, DepartureEvent, Event, Workload, events

DEVICE_PREFIX = "device "
"""Begins the name that a service has for each device of a host; its index follows."""

Progress = Callable[[int, int, int], None]
"""(requests done, placed instances, refused requests) -> None."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to replay.

    `concurrency` 1 keeps the order of arrival exactly. `key` makes creates repeatable: replaying
    again under the same key finds what is there instead of making it again. `until_s` leaves
    out what happens after that second of the trace.
    """

    concurrency: int = 1
    key: str = "replay"
    limit: int | None = None
    until_s: float | None = None


@dataclass(slots=True)
class _Run:
    """What is known so far; `devices` is the index of each device by host name and uuid."""

    client: ServiceClient
    auditor: Auditor
    needs: dict[str, Needs]
    devices: Mapping[tuple[str, str], int]
    options: ReplayOptions
    servers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    leaving: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    times: list[RequestTimes] = field(default_factory=list[RequestTimes])
    refusals: list[ReplayRefusal] = field(default_factory=list[ReplayRefusal])
    faults: list[str] = field(default_factory=list[str])


async def replay(
    workload: Workload,
    connection: ServiceConnection,
    options: ReplayOptions | None = None,
    progress: Progress | None = None,
) -> ReplayReport:
    """Replay a workload and report what came of it.

    Raises:
        UnavailableError: the service cannot be reached, or went away for too long.
        ServiceError: it refused a request as such.
    """
    options = options or ReplayOptions()
    client = ServiceClient(connection, connections_max=options.concurrency + 16)
    try:
        await _prepare(client, workload)
        devices = await _devices(client, workload)
        run = _Run(client, Auditor(workload.hosts), _needs(workload), devices, options)
        began_s = time.monotonic()
        await _walk(run, workload, progress)
        await _departed(run)
        took_s = time.monotonic() - began_s
        run.faults += [f"overcommitted: {one}" for one in run.auditor.overcommitted()]
        hosts = await client.hosts()
    finally:
        await client.close()
    return summarise(
        workload, hosts, run.times, run.refusals, took_s=took_s, faults=tuple(run.faults)
    )


async def _prepare(client: ServiceClient, workload: Workload) -> None:
    for spec in workload.flavors.values():
        await client.ensure_flavor(spec)
    zones: dict[str, list[str]] = {}
    for host in workload.hosts:
        if host.availability_zone is not None:
            zones.setdefault(host.availability_zone, []).append(host.name)
    for zone, names in sorted(zones.items()):
        await client.ensure_zone(zone, names)


async def _devices(client: ServiceClient, workload: Workload) -> dict[tuple[str, str], int]:
    """Return the index of every device of the fleet, by its host's name and its uuid there."""
    if not any(host.devices for host in workload.hosts):
        return {}
    devices: dict[tuple[str, str], int] = {}
    for host in await client.hosts():
        for child in cast("list[dict[str, str]]", host["children"]):
            if child["name"].startswith(DEVICE_PREFIX):
                index = int(child["name"].removeprefix(DEVICE_PREFIX))
                devices[host["name"], child["uuid"]] = index
    return devices


def _needs(workload: Workload) -> dict[str, Needs]:
    return {name: needs_of(spec.flavor) for name, spec in workload.flavors.items()}


async def _walk(run: _Run, workload: Workload, progress: Progress | None) -> None:
    slots = asyncio.Semaphore(run.options.concurrency)
    done = placed = 0

    async def one(arrival: Arrival) -> None:
        nonlocal done, placed
        async with slots:
            times = await _arrive(run, arrival)
        done += 1
        placed += times.placed
        if progress is not None:
            progress(done, placed, len(run.refusals))

    async with asyncio.TaskGroup() as group:
        for event in _limited(workload, run.options):
            if isinstance(event, DepartureEvent):
                await _depart(run, event.arrival)
            elif run.options.concurrency == 1:
                await _departed(run)
                await one(event.arrival)
            else:
                group.create_task(one(event.arrival))


def _limited(workload: Workload, options: ReplayOptions) -> list[Event]:
    arrived = 0
    kept: list[Event] = []
    for event in events(workload, until_s=options.until_s or _last_arrival_s(workload)):
        if not isinstance(event, DepartureEvent):
            arrived += 1
            if options.limit is not None and arrived > options.limit:
                break
        kept.append(event)
    return kept


def _last_arrival_s(workload: Workload) -> float:
    return workload.arrivals[-1].at_s if workload.arrivals else 0.0


async def _arrive(run: _Run, arrival: Arrival) -> RequestTimes:
    body: Json = {"name": arrival.name, "flavorRef": arrival.flavor, "networks": "none"}
    if arrival.count > 1:
        body |= {"min_count": arrival.count, "max_count": arrival.count}
    if arrival.availability_zone is not None:
        body["availability_zone"] = arrival.availability_zone
    began_s = time.perf_counter()
    request_id = await run.client.create(body, f"{run.options.key}/{arrival.name}")
    request_ms = (time.perf_counter() - began_s) * 1000
    decision = await run.client.decision_of(request_id)
    placements = decision["placements"]
    times = RequestTimes(request_ms, decision["duration_us"] / 1000, len(placements))
    run.times.append(times)
    if placements:
        _enter(run, arrival, placements)
    else:
        run.refusals.append(_refused(run, arrival, decision))
    return times


def _enter(run: _Run, arrival: Arrival, placements: list[Json]) -> None:
    needs = run.needs[arrival.flavor]
    run.servers[arrival.name] = [placement["instance_uuid"] for placement in placements]
    for placement in placements:
        try:
            run.auditor.placed(
                placement["instance_uuid"],
                placement["host"],
                needs.amounts,
                traits_required=needs.traits_required,
                any_traits=needs.traits_any,
                availability_zone=arrival.availability_zone,
            )
            run.auditor.took(
                placement["instance_uuid"], _asked(needs), _parts(run, needs, placement)
            )
        except AuditError as error:
            run.faults.append(str(error))


def _asked(needs: Needs) -> DeviceRequest:
    return DeviceRequest(tuple(group.amounts for group in needs.groups), needs.isolate)


def _parts(run: _Run, needs: Needs, placement: Json) -> list[DeviceShare]:
    """Return what an instance got for each group; what is of no known device has index -1."""
    assignment = cast("Mapping[str, Mapping[str, list[str]]] | None", placement["assignment"])
    mappings: Mapping[str, list[str]] = {} if assignment is None else assignment["mappings"]
    return [
        DeviceShare(run.devices.get((placement["host"], uuid), -1), group.amounts)
        for group in needs.groups
        for uuid in mappings.get(group.suffix, ())
    ]


def _refused(run: _Run, arrival: Arrival, decision: Json) -> ReplayRefusal:
    """Prove a refusal: enter copies until none fits, and see that they are fewer than asked."""
    needs = run.needs[arrival.flavor]
    asked = _asked(needs)
    fitted = 0
    while fitted < arrival.count:
        free = run.auditor.fits(
            needs.amounts,
            needs.traits_required,
            needs.traits_any,
            arrival.availability_zone,
            devices=asked,
        )
        if not free:
            break
        parts = run.auditor.parts_on(free[0], asked)
        run.auditor.placed(f"proof-{fitted}", free[0], needs.amounts)
        run.auditor.took(f"proof-{fitted}", asked, parts)
        fitted += 1
    for index in range(fitted):
        run.auditor.released(f"proof-{index}")
    refusal = decision["refusal"]
    relaxations = refusal["relaxations"]
    return ReplayRefusal(
        arrival=arrival.name,
        request_id=decision["request_id"],
        reason=_reason(refusal),
        hint=relaxations[0]["text"] if relaxations else "no single change would have helped",
        proven=fitted < arrival.count,
    )


def _reason(refusal: Json) -> str:
    """Name the filter that left no host: the last one that removed any."""
    code: str = refusal["code"]
    removing: list[str] = [
        count["name"] for count in refusal["filters"] if count["before"] > count["after"]
    ]
    return code if code == "contention" or not removing else removing[-1]


async def _depart(run: _Run, arrival: Arrival) -> None:
    for server in run.servers.pop(arrival.name, []):
        task = asyncio.create_task(_delete(run, server))
        run.leaving.add(task)


async def _delete(run: _Run, server: str) -> None:
    await run.client.delete(server)
    run.auditor.released(server)


async def _departed(run: _Run) -> None:
    """Wait until all that is leaving has left."""
    leaving, run.leaving = run.leaving, set()
    for result in await asyncio.gather(*leaving, return_exceptions=True):
        if isinstance(result, BerthError):
            run.faults.append(str(result))
        elif isinstance(result, BaseException):
            raise result
