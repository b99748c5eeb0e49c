"""Replays a workload against a running Berth, checked by the independent auditor.

The auditor knows the fleet and all placements, and shares no code with the scheduler. It checks
every placement. For every refusal, it checks that its own records show no room either.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from berth.domain.compute.needs import Needs, needs_of
from berth.domain.errors import BerthError
from berth.lab.auditor import AuditedDeviceShare, AuditError, Auditor, DeviceRequest
from berth.lab.report import ReplayRefusal, ReplayReport, RequestTimes, summarise
from berth.lab.service_client import Json, ServiceClient, ServiceConnection
from berth.lab.workload import Arrival, DepartureEvent, Event, Workload, events

DEVICE_PREFIX = "device "
"""The prefix of a device's provider name in the service; the device's index follows it."""

Progress = Callable[[int, int, int], None]
"""Called after each request with the totals of requests, placed instances and refusals."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of a replay.

    Attributes:
        concurrency: the maximum number of requests in flight; 1 keeps the order of arrival exactly.
        key: a prefix of idempotency keys. A second replay with the same key finds the instances
            of the first one instead of creating them again.
        limit: the number of arrivals to replay, or None for all.
        until_s: the second of the trace at which the replay ends; None or 0 for that of the last
            arrival.
    """

    concurrency: int = 1
    key: str = "replay"
    limit: int | None = None
    until_s: float | None = None


@dataclass(slots=True)
class _Run:
    """The state of a replay; `devices` maps a host name and provider uuid to a device's index."""

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
    """Replay a workload and return the report.

    Args:
        workload: the workload, of whose fleet the service must have the hosts.
        connection: the URL of the service, and the account.
        options: see `ReplayOptions`; None for the defaults.
        progress: called after each request.

    Raises:
        UnavailableError: the service did not answer within the client's retries.
        ServiceError: the service refused a request.
        TimeoutError: a decision or deletion took longer than a minute.
    """
    options = options or ReplayOptions()
    async with ServiceClient(connection, connections_max=options.concurrency + 16) as client:
        await _prepare(client, workload)
        devices = await _devices(client, workload)
        run = _Run(client, Auditor(workload.hosts), _needs(workload), devices, options)
        # The clock starts after the preparation, so that the report measures only the requests.
        began_s = time.monotonic()
        await _walk(run, workload, progress)
        await _departed(run)
        took_s = time.monotonic() - began_s
        run.faults += [f"overcommitted: {one}" for one in run.auditor.overcommitted()]
        hosts = await client.hosts()
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
    """Return the index of every device of the fleet by host name and provider uuid."""
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

    try:
        async with asyncio.TaskGroup() as group:
            for event in _limited(workload, run.options):
                if isinstance(event, DepartureEvent):
                    await _depart(run, event.arrival)
                elif run.options.concurrency == 1:
                    # The room of departed instances must be free in the service before the next
                    # request, or a replay in order would not be reproducible.
                    await _departed(run)
                    await one(event.arrival)
                else:
                    group.create_task(one(event.arrival))
    except ExceptionGroup as errors:
        # The task group wraps even a single error, but callers catch the error itself.
        raise errors.exceptions[0] from errors


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
    # The replay continues after a broken rule, because one fault must not hide the others.
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


def _parts(run: _Run, needs: Needs, placement: Json) -> list[AuditedDeviceShare]:
    """Return an instance's device shares; a device that is not known has the index -1."""
    assignment = cast("Mapping[str, Mapping[str, list[str]]] | None", placement["assignment"])
    mappings: Mapping[str, list[str]] = {} if assignment is None else assignment["mappings"]
    return [
        AuditedDeviceShare(run.devices.get((placement["host"], uuid), -1), group.amounts)
        for group in needs.groups
        for uuid in mappings.get(group.suffix, ())
    ]


def _refused(run: _Run, arrival: Arrival, decision: Json) -> ReplayRefusal:
    """Return the record of a refusal, after checking it against the auditor's records.

    Instances are placed in the auditor until none fits. The refusal is proven if fewer fit than
    were requested.
    """
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
    """Return the name of the last filter that removed hosts; the code for any other refusal."""
    code: str = refusal["code"]
    removing: list[str] = [
        count["name"] for count in refusal["filters"] if count["before"] > count["after"]
    ]
    return code if code == "contention" or not removing else removing[-1]


async def _depart(run: _Run, arrival: Arrival) -> None:
    # Deletions run in the background, because owners do not wait for them before the next request.
    for server in run.servers.pop(arrival.name, []):
        task = asyncio.create_task(_delete(run, server))
        run.leaving.add(task)


async def _delete(run: _Run, server: str) -> None:
    # The release is recorded after the service has confirmed it. If it were recorded earlier, the
    # auditor would consider the room free while the scheduler does not.
    await run.client.delete(server)
    run.auditor.released(server)


async def _departed(run: _Run) -> None:
    """Wait for all deletions in flight, and record their errors as faults."""
    leaving, run.leaving = run.leaving, set()
    for result in await asyncio.gather(*leaving, return_exceptions=True):
        if isinstance(result, BerthError):
            run.faults.append(str(result))
        elif isinstance(result, BaseException):
            raise result
