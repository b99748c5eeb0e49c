"""The examination of an installation: what is wrong with this machine and its servers."""

import asyncio
import os
import resource
import shutil
import ssl
import stat
import time
from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from berth import __version__
from berth.adapters.ledger import SCHEMA, open_ledger, schema_of
from berth.adapters.ledger.examination import Examination, examine_store
from berth.adapters.system import LogTelemetry, SystemClock
from berth.app.messaging import broker_of
from berth.app.run import ledger_url_of, sqlite_path_of
from berth.config.api_settings import AuthMode
from berth.config.settings import Settings
from berth.config.settings_check import Role, Severity, check_settings
from berth.domain.compute.host import Service
from berth.domain.compute.host_identity import HostIdentity
from berth.domain.errors import BerthError, PolicyError
from berth.domain.url_redaction import redact_accounts
from berth.domain.zones.zone import Zone
from berth.ports.ledger import HeartbeatReport, Ledger
from berth.services.replica.liveness import SCHEDULING_PARTS, SHARE_INTERVAL_S, process_of

if TYPE_CHECKING:
    from berth.adapters.bus.rabbitmq import RabbitBroker
    from berth.adapters.ledger.postgres.postgres_servers import ServerState
    from berth.services.zoning.messages.child_client import ChildClient

T = TypeVar("T")

_TIMEOUT_S: Final = 15.0
_MIB: Final = 2**20
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
# Assertions between zones and tokens of Keystone are refused beyond a few seconds of skew.
_SKEW_S_MAX: Final = 2.0
_DISK_SHARE_LOW: Final = 0.10
_DISK_MB_MIN: Final = 512
_MEMORY_MB_LOW: Final = 512
# Beyond this size, checkpoints do not keep up, or a reader blocks them.
_WAL_MB_HIGH: Final = 256
_KEY_AGE_DAYS_MAX: Final = 365
_DAY_S: Final = 86_400
_CONNECTIONS_SHARE_HIGH: Final = 0.8
# A process that has missed so many exchanges of heartbeats has ended.
_EXCHANGES_MISSED_MAX: Final = 3
_REPLICA_LAG_S_MAX: Final = 60.0
# A standby that never comes back fills the disk of the primary through its slot.
_SLOT_MB_HIGH: Final = 1024
_DISK_MB_PLENTY: Final = 20 * 1024
# More names would hide the other results.
_NAMES_MAX: Final = 5


class Status(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of a check: what was seen, and what to do; nothing to do if it is ok."""

    check: str
    status: Status
    seen: str
    advice: str = ""


Check: TypeAlias = Callable[[Settings], Awaitable[list[Diagnosis]]]


async def diagnose(settings: Settings, *, timeout_s: float = _TIMEOUT_S) -> list[Diagnosis]:
    """Run all checks at the same time, and return their results in a fixed order.

    A check that fails unexpectedly or takes too long is itself a result. Nothing is changed: writes
    to the ledger are rolled back, and the queue at the broker is removed.

    Args:
        settings: valid settings.
        timeout_s: seconds that each check may take.
    """
    return await run_checks(CHECKS, settings, timeout_s=timeout_s)


async def run_checks(
    checks: Iterable[tuple[str, Check]], settings: Settings, *, timeout_s: float
) -> list[Diagnosis]:
    """Run checks at the same time, and return their results in order.

    Args:
        checks: the checks with their names.
        settings: valid settings.
        timeout_s: seconds that each check may take.
    """
    runs = [_run(name, check, settings, timeout_s) for name, check in checks]
    return [one for found in await asyncio.gather(*runs) for one in found]


async def _run(name: str, check: Check, settings: Settings, timeout_s: float) -> list[Diagnosis]:
    try:
        async with asyncio.timeout(timeout_s):
            return await check(settings)
    except TimeoutError:
        advice = "look for a server that does not answer, or a file system that hangs"
        return [Diagnosis(name, Status.FAIL, f"no answer within {timeout_s:g} s", advice)]
    except BerthError as error:
        seen, _, advice = redact_accounts(str(error)).rpartition("; ")
        return [Diagnosis(name, Status.FAIL, seen or advice, advice if seen else "see the error")]
    except Exception as error:  # noqa: BLE001 - a broken check must not hide the other results
        seen = f"the check failed: {type(error).__name__}: {redact_accounts(str(error))}"
        return [Diagnosis(name, Status.FAIL, seen, "report this as a bug in Berth")]


async def _in_thread(function: Callable[[], T]) -> T:
    """Return the result of a function that may block, run in a thread that may be abandoned.

    The threads of `asyncio.to_thread` would delay the end of the process until they return.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type] # None only if T includes it

    def work() -> None:
        result, failure = None, None
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - it is raised again where it is awaited
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failure)

    Thread(target=work, daemon=True).start()
    return await future


async def _settings(settings: Settings) -> list[Diagnosis]:
    """Check the files that settings name, such as policy, users, keys and certificates."""
    found = await _in_thread(lambda: check_settings(settings, Role.ALL, datetime.now(UTC)))
    status = {Severity.ERROR: Status.FAIL, Severity.WARNING: Status.WARN}
    return [
        Diagnosis("settings", status[one.severity], f"{one.key}: {one.text}", "see the text")
        for one in found
    ] or [Diagnosis("settings", Status.OK, "all named files are valid")]


async def _ledger(settings: Settings) -> list[Diagnosis]:
    url = ledger_url_of(settings.ledger)
    path = sqlite_path_of(url)
    if url == "memory:":
        return [Diagnosis("ledger", Status.WARN, "it is in memory", "use a file or PostgreSQL")]
    if path is not None and not await _in_thread(path.exists):
        advice = "create it with `berth ledger migrate`, or start Berth"
        return [Diagnosis("ledger", Status.WARN, f"{path} does not exist", advice)]
    schema = await schema_of(url)
    if schema is None:
        advice = "create them with `berth ledger migrate`"
        return [Diagnosis("ledger", Status.WARN, "it has no tables", advice)]
    schema.check()
    found = [_schema(schema.revision)]
    facts = await examine_store(url)
    found += store_diagnoses(facts)
    if path is not None:
        found += await _in_thread(lambda: list(sqlite_diagnoses(path)))
    else:
        from berth.adapters.ledger.postgres.postgres_servers import (  # noqa: PLC0415 - slow import
            examine_servers,
        )

        found += server_diagnoses(await examine_servers(url))
    return found


def server_diagnoses(servers: "Sequence[ServerState]") -> Iterator[Diagnosis]:
    """Yield the results for the roles and the replication of PostgreSQL servers."""
    for one in servers:
        yield _server(one, is_alone=len(servers) == 1)
    primaries = [one for one in servers if not one.error and not one.is_standby]
    if not primaries:
        advice = "promote a standby, or start the primary; Berth needs one to write"
        yield Diagnosis("replication", Status.FAIL, "no server is a primary", advice)
    elif len(primaries) > 1:
        newest = max(primaries, key=lambda one: one.timeline)
        old = [one.address for one in primaries if one is not newest]
        seen = f"{len(primaries)} servers are primaries; {newest.address} was promoted last"
        advice = f"stop {_some(old)} and make it a standby; its newer data are lost"
        yield Diagnosis("replication", Status.FAIL, seen, advice)
    for one in primaries:
        large = [name for name, kept in one.idle_slots if kept > _SLOT_MB_HIGH * _MIB]
        if large:
            seen = f"{one.address} keeps more than {_SLOT_MB_HIGH} MiB of WAL for {_some(large)}"
            advice = "start the standby of the slot, or drop the slot with pg_drop_replication_slot"
            yield Diagnosis("replication", Status.WARN, seen, advice)


def _server(one: "ServerState", *, is_alone: bool) -> Diagnosis:
    """Return the result for one PostgreSQL server."""
    if one.error:
        advice = "start it, or remove it from ledger.url"
        seen = f"{one.address} cannot be examined: {one.error}"
        return Diagnosis("replication", Status.WARN, seen, advice)
    if one.is_standby:
        seen = f"{one.address} is a standby, {one.lag_s:.0f} s behind"
        if not one.is_receiving:
            advice = "check its primary_conninfo and its log; after a failover it would lack data"
            seen = f"{one.address} is a standby without a connection to a primary"
            return Diagnosis("replication", Status.WARN, seen, advice)
        if one.lag_s > _REPLICA_LAG_S_MAX:
            return Diagnosis("replication", Status.WARN, seen, "check its disk and the network")
        return Diagnosis("replication", Status.OK, seen)
    # The user of the ledger may not be allowed to see the state of a standby.
    standbys = [f"{two.name} {two.state} {two.sync_state}" for two in one.replicas]
    seen = f"{one.address} is the primary, timeline {one.timeline}, standbys: "
    seen += _some(standbys) if standbys else "none"
    broken = [two for two in one.replicas if two.state not in {"streaming", "?"}]
    if broken or (not standbys and not is_alone):
        advice = "check the standbys; without one that streams, a failover loses data"
        return Diagnosis("replication", Status.WARN, seen, advice)
    return Diagnosis("replication", Status.OK, seen)


def _schema(revision: str) -> Diagnosis:
    seen = f"the ledger has schema {revision}, this Berth {SCHEMA}"
    if revision < SCHEMA:
        advice = "back up the ledger; then run `berth ledger migrate`"
        return Diagnosis("schema", Status.WARN, seen, advice)
    if revision > SCHEMA:
        return Diagnosis("schema", Status.WARN, seen, "upgrade this Berth as well")
    return Diagnosis("schema", Status.OK, seen)


def store_diagnoses(facts: Examination) -> Iterator[Diagnosis]:
    """Yield the results that follow from the facts about a ledger's store."""
    if facts.write_error:
        advice = "check the permissions of Berth's user, free disk space, and other programs"
        seen = f"{facts.store} refuses writes: {facts.write_error}"
        yield Diagnosis("ledger", Status.FAIL, seen, advice)
    else:
        seen = f"{facts.store} accepts writes (probed and rolled back)"
        yield Diagnosis("ledger", Status.OK, seen)
    if facts.settings:
        yield from _server_settings(facts)
    if facts.clock_ahead_s is not None:
        yield clock_diagnosis("PostgreSQL", facts.clock_ahead_s)


def _server_settings(facts: Examination) -> Iterator[Diagnosis]:
    unsafe = [
        f"{name} = off"
        for name in ("fsync", "full_page_writes", "synchronous_commit")
        if facts.settings.get(name) == "off"
    ]
    if unsafe:
        advice = "turn them on; a crash could lose claims, so that hosts are overcommitted"
        yield Diagnosis("durability", Status.FAIL, ", ".join(unsafe), advice)
    else:
        yield Diagnosis("durability", Status.OK, "commits are flushed to disk")
    maximum = int(facts.settings["max_connections"])
    seen = f"{facts.connections} of {maximum} connections are in use"
    if facts.connections > maximum * _CONNECTIONS_SHARE_HIGH:
        advice = "increase max_connections, or stop unused clients"
        yield Diagnosis("connections", Status.WARN, seen, advice)
    else:
        yield Diagnosis("connections", Status.OK, seen)


def clock_diagnosis(server: str, ahead_s: float) -> Diagnosis:
    """Return the result for a server's clock that is `ahead_s` seconds ahead of this machine's."""
    word = "ahead of" if ahead_s > 0 else "behind"
    seen = f"the clock of {server} is {abs(ahead_s):.1f} s {word} this machine's"
    if abs(ahead_s) > _SKEW_S_MAX:
        advice = "synchronise both machines by NTP (`chronyc tracking`)"
        return Diagnosis("clock", Status.FAIL, seen, advice)
    return Diagnosis("clock", Status.OK, seen)


def sqlite_diagnoses(path: Path) -> Iterator[Diagnosis]:
    """Yield the results for the files of a SQLite ledger: their modes and the size of the log."""
    wal = path.with_name(f"{path.name}-wal")
    open_to_others = [one for one in (path, wal) if one.exists() and one.stat().st_mode & _OTHERS]
    for one in open_to_others:
        seen = f"other users can access {one} (mode {stat.S_IMODE(one.stat().st_mode):04o})"
        yield Diagnosis("permissions", Status.WARN, seen, f"run chmod 600 {one}")
    if not open_to_others:
        yield Diagnosis("permissions", Status.OK, f"only its owner can access {path}")
    size_mb = wal.stat().st_size // _MIB if wal.exists() else 0
    if size_mb > _WAL_MB_HIGH:
        advice = "end programs that read the file for long; restart Berth if the log keeps growing"
        yield Diagnosis("ledger", Status.WARN, f"{wal} has {size_mb} MiB", advice)


async def _broker(settings: Settings) -> list[Diagnosis]:
    if settings.bus.url is None:
        return [Diagnosis("broker", Status.OK, "none is configured")]
    broker = broker_of(settings.bus)
    from berth.adapters.bus.rabbitmq.broker_probe import (  # noqa: PLC0415 - an extra
        misdeclared_queues,
        probe_broker,
    )

    version = await probe_broker(broker)
    seen = f"RabbitMQ {version} at {broker.safe_url} lets Berth declare, bind, publish and read"
    wrong = await misdeclared_queues(broker, _queues_of(broker))
    return [Diagnosis("broker", Status.OK, seen), *queue_diagnoses(wrong)]


def _queues_of(broker: "RabbitBroker") -> dict[str, Mapping[str, Any]]:
    """Return the arguments of the queues that the processes of this installation share."""
    from berth.adapters.bus.rabbitmq.command_consumers import queue_arguments  # noqa: PLC0415
    from berth.adapters.gateway.broker_names import OPENING_ARGUMENTS, GatewayNames  # noqa: PLC0415
    from berth.services.requests.orders import PLACE, PLACE_BEFORE  # noqa: PLC0415
    from berth.services.zoning.messages import zone_commands as zones  # noqa: PLC0415

    commands = (PLACE, PLACE_BEFORE, zones.SELECT, zones.BUILD, zones.RELEASE, zones.RELEASE_OFFERS)
    queues: dict[str, Mapping[str, Any]] = {
        broker.queue_of(one): queue_arguments(one) or {} for one in commands
    }
    queues[GatewayNames(broker.prefix).openings] = OPENING_ARGUMENTS
    return queues


def queue_diagnoses(wrong: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Yield a result for each queue whose type or limits differ from those that Berth declares."""
    for name, reason in wrong.items():
        advice = f"stop the processes, then `rabbitmqctl delete_queue {name}`; Berth makes it again"
        yield Diagnosis("broker", Status.FAIL, f"queue {name} is of another kind: {reason}", advice)
    if not wrong:
        yield Diagnosis("broker", Status.OK, "the shared queues are of the right type, or absent")


async def _keystone(settings: Settings) -> list[Diagnosis]:
    keystone = settings.keystone
    if settings.auth.mode is not AuthMode.KEYSTONE or keystone.auth_url is None:
        return [Diagnosis("keystone", Status.OK, "it is not in use")]
    advice = "check keystone.auth_url, the network, and keystone.ca_file"
    return await _reach(
        "keystone", "Keystone", keystone.auth_url, keystone.ca_file, keystone.timeout_s, advice
    )


async def _reach(
    check: str, server: str, url: str, ca_file: Path | None, timeout_s: float, advice: str
) -> list[Diagnosis]:
    """Return whether a server answers over HTTP, and how far its clock is from this machine's."""
    import httpx  # noqa: PLC0415 - it takes long to load, and few need it

    try:
        verify = ssl.create_default_context(cafile=ca_file) if url.startswith("https:") else False
        async with httpx.AsyncClient(verify=verify, timeout=timeout_s) as client:
            answer = await client.get(url)
    except (httpx.HTTPError, OSError) as error:
        why = f"{type(error).__name__}: {redact_accounts(str(error))}"
        return [Diagnosis(check, Status.FAIL, f"{server} cannot be reached: {why}", advice)]
    seen = f"{server} responds with {answer.status_code}"
    if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        return [Diagnosis(check, Status.FAIL, seen, advice)]
    found = [Diagnosis(check, Status.OK, seen)]
    if "date" in answer.headers:
        server_s = parsedate_to_datetime(answer.headers["date"]).timestamp()
        # The header has whole seconds, so on average half a second is cut off.
        found.append(clock_diagnosis(server, server_s + 0.5 - time.time()))
    return found


async def _fleet(settings: Settings) -> list[Diagnosis]:
    """Check the hosts and the child zones that a current ledger has."""
    url = ledger_url_of(settings.ledger)
    path = sqlite_path_of(url)
    if url == "memory:" or (path is not None and not await _in_thread(path.exists)):
        return []
    schema = await schema_of(url)
    # A ledger of another schema is a result of the check of the ledger, and must not be migrated.
    if schema is None or schema.revision != SCHEMA:
        return []
    ledger = await open_ledger(url, timeout_s=settings.ledger.timeout_s)
    try:
        state = await ledger.snapshot(time.time())
        reports = await ledger.heartbeats({})
        of_zones = await _zones(settings, state.zones, ledger)
        identities = await ledger.all(HostIdentity)
    finally:
        await ledger.close()
    down_time_s = await _in_thread(lambda: _service_down_time_s(settings))
    share_max = settings.health.silent_share_max
    found = list(
        host_diagnoses(
            with_heartbeats(state.services, reports), state.now_s, down_time_s, share_max
        )
    )
    found += key_revocations(identities, {one.host for one in state.services})
    found += process_diagnoses(reports, time.time())
    return found + of_zones


def key_revocations(
    identities: Iterable[HostIdentity], hosts: Collection[str]
) -> Iterator[Diagnosis]:
    """Yield a result if keys of existing hosts are revoked, so that their agents are refused."""
    revoked = [one.host for one in identities if one.revoked_at_s is not None and one.host in hosts]
    if revoked:
        advice = "enrol them again with `berth host enroll HOST`, or remove the hosts"
        seen = f"the keys of hosts are revoked: {_some(revoked)}"
        yield Diagnosis("hosts", Status.WARN, seen, advice)


def process_diagnoses(reports: Iterable[HeartbeatReport], now_s: float) -> Iterator[Diagnosis]:
    """Yield the results for the running processes: whether any schedules, and their versions.

    Args:
        reports: the latest report of each process; those of the last day are kept.
        now_s: Unix seconds.
    """
    oldest_ms = (now_s - _EXCHANGES_MISSED_MAX * SHARE_INTERVAL_S) * 1000
    alive = [process_of(one.gateway) for one in reports if one.number >= oldest_ms]
    if not any(one.part in SCHEDULING_PARTS for one in alive):
        seen, advice = "no scheduler is running", "start one; servers that are created wait for it"
        yield Diagnosis("processes", Status.WARN, seen, advice)
    counts = Counter((one.part or "process", one.version or "an older version") for one in alive)
    shown = [f"{number} {part} ({version})" for (part, version), number in sorted(counts.items())]
    seen = f"running: {', '.join(shown)}" if shown else "none is running"
    others = {version for _, version in counts} - {__version__}
    if others:
        advice = (
            f"finish the upgrade to {__version__}: restart the others, schedulers and APIs first"
        )
        yield Diagnosis("processes", Status.WARN, seen, advice)
    elif shown:
        yield Diagnosis("processes", Status.OK, seen)


def _service_down_time_s(settings: Settings) -> float:
    from berth.config.policy_file import load_policy  # noqa: PLC0415 - it needs NumPy

    try:
        return load_policy(settings.policy.path).service_down_time_s
    except PolicyError:
        # The check of the settings reports the policy file.
        return load_policy(None).service_down_time_s


def with_heartbeats(
    services: Iterable[Service], reports: Iterable[HeartbeatReport]
) -> list[Service]:
    """Return services with the newest heartbeats of all gateways."""
    seen_s: dict[str, float] = {}
    for report in reports:
        for host, at_s in report.seen_s.items():
            seen_s[host] = max(at_s, seen_s.get(host, 0.0))
    return [
        replace(one, last_seen_s=max(one.last_seen_s, seen_s.get(one.host, 0.0)))
        for one in services
    ]


def host_diagnoses(
    services: Sequence[Service], now_s: float, down_time_s: float, silent_share_max: float
) -> Iterator[Diagnosis]:
    """Yield the results for the heartbeats of hosts.

    Args:
        services: the compute services, with their newest heartbeats.
        now_s: Unix seconds.
        down_time_s: seconds without a heartbeat after which a service is down.
        silent_share_max: share of the hosts that may be silent before evacuations are blocked.
    """
    ahead = [one.host for one in services if one.last_seen_s > now_s + _SKEW_S_MAX]
    if ahead:
        seen = f"heartbeats are in the future: {_some(ahead)}"
        advice = "synchronise the clocks of this machine and of the APIs by NTP"
        yield Diagnosis("clock", Status.FAIL, seen, advice)
    # A host that an operator has disabled may be switched off for maintenance.
    silent = [
        one.host
        for one in services
        if not one.forced_down
        and not one.disabled
        and not one.is_up(now_s, down_time_s)
        and one.host not in ahead
    ]
    if not silent:
        disabled = sum(one.disabled for one in services)
        seen = f"{len(services)} hosts, {disabled} disabled, none of the others silent"
        yield Diagnosis("hosts", Status.OK, seen)
        return
    is_mass = len(silent) > silent_share_max * len(services)
    seen = f"{len(silent)} of {len(services)} hosts are silent: {_some(silent)}"
    advice = "check their agents with `berth host show HOST` and `systemctl status berth-agent`"
    if is_mass:
        advice = "look for a common cause: the APIs that agents use, the broker, the network"
    yield Diagnosis("hosts", Status.FAIL if is_mass else Status.WARN, seen, advice)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_MAX
    return ", ".join(sorted(names)[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


async def _zones(settings: Settings, zones: Iterable[Zone], ledger: Ledger) -> list[Diagnosis]:
    zone_settings = settings.zones
    advice = "check its address with `berth zone show`, the network, and zones.ca_file"
    enabled = [one for one in zones if one.is_enabled and not one.is_removed]
    runs = [
        _reach(
            "zones",
            f"zone {one.name}",
            one.api_url,
            zone_settings.ca_file,
            zone_settings.poll_timeout_s,
            advice,
        )
        for one in enabled
    ]
    reached = [one for found in await asyncio.gather(*runs) for one in found]
    return reached + await _zone_assertions(settings, enabled, ledger)


async def _zone_assertions(
    settings: Settings, zones: Sequence[Zone], ledger: Ledger
) -> list[Diagnosis]:
    """Check that child zones accept the account and a signed assertion of this zone."""
    zone_settings = settings.zones
    path = zone_settings.key_file or settings.ledger.data_dir / "zone-keys"
    if not zones or not zone_settings.is_on:
        return []
    if not await _in_thread(path.exists):
        advice = "copy the file from an API of this zone, or run this command there"
        return [Diagnosis("zones", Status.WARN, f"{path}, this zone's keys, is missing", advice)]
    from berth.adapters.zones import open_children  # noqa: PLC0415 - few need it
    from berth.config.zone_keys import ZoneKeyFile  # noqa: PLC0415 - it loads ciphers
    from berth.services.crypto.sealing import Sealer  # noqa: PLC0415 - see above
    from berth.services.zoning.children.zones import Zones  # noqa: PLC0415
    from berth.services.zoning.messages.assertions import AssertionWriter  # noqa: PLC0415
    from berth.services.zoning.messages.child_client import ChildClient  # noqa: PLC0415

    clock = SystemClock()
    keys = await _in_thread(lambda: ZoneKeyFile(path, clock, LogTelemetry("doctor")))
    writer = AssertionWriter(zone_settings.name, keys, clock.now_s, os.urandom)
    records = Zones(ledger, Sealer(keys.passwords, os.urandom), zone_settings.name)
    async with open_children(
        writer, password_of=records.password, ca_file=zone_settings.ca_file
    ) as forwards:
        client = ChildClient(forwards, clock)
        runs = [_asserted(client, one, zone_settings.poll_timeout_s) for one in zones]
        return await asyncio.gather(*runs)


async def _asserted(client: "ChildClient", zone: Zone, timeout_s: float) -> Diagnosis:
    try:
        info = await client.info(zone, timeout_s=timeout_s)
    except BerthError as error:
        seen, _, advice = redact_accounts(str(error)).partition("; ")
        return Diagnosis("zones", Status.FAIL, seen, advice or "see the error")
    if info.name != zone.name:
        seen = f"zone {zone.name} calls itself {info.name}"
        return Diagnosis("zones", Status.FAIL, seen, "correct its URL, or its name in this zone")
    return Diagnosis("zones", Status.OK, f"zone {zone.name} accepts this zone's assertions")


async def _keys(settings: Settings) -> list[Diagnosis]:
    return await _in_thread(lambda: list(key_diagnoses(settings, time.time())))


def key_diagnoses(settings: Settings, now_s: float) -> Iterator[Diagnosis]:
    """Yield the results for the ages of the control plane's files of keys."""
    folder = settings.ledger.data_dir
    files = {
        "berth token-keys rotate": settings.auth.token_keys or folder / "token-keys",
        "berth bus-keys rotate": settings.bus.key_file or folder / "bus-keys",
        "berth control-keys rotate": settings.gateway.key_file or folder / "control-keys",
        "berth zone keys rotate": settings.zones.key_file or folder / "zone-keys",
    }
    found = {command: path for command, path in files.items() if path.exists()}
    old = False
    for command, path in found.items():
        days = int((now_s - path.stat().st_mtime) / _DAY_S)
        if days > _KEY_AGE_DAYS_MAX:
            old = True
            seen = f"{path} was last changed {days} days ago"
            yield Diagnosis("keys", Status.WARN, seen, f"run `{command} --file {path}`")
    if not old:
        yield Diagnosis("keys", Status.OK, f"{len(found)} files of keys, none older than a year")


async def _disk(settings: Settings) -> list[Diagnosis]:
    path = sqlite_path_of(ledger_url_of(settings.ledger))
    folders = [settings.ledger.data_dir if path is None else path.parent, settings.virt.state_dir]
    if settings.log.file is not None:
        folders.append(settings.log.file.parent)
    existing = await _in_thread(lambda: [one for one in folders if one.is_dir()])
    return [await _in_thread(lambda one=one: disk_diagnosis(one)) for one in existing]  # type: ignore[misc]


def disk_diagnosis(folder: Path) -> Diagnosis:
    """Return the result for the free space of a folder's file system."""
    usage = shutil.disk_usage(folder)
    free_mb = usage.free // _MIB
    seen = f"{free_mb:,} MiB are free in {folder.absolute()}"
    advice = "free or add space; without any, Berth cannot record claims"
    if free_mb < _DISK_MB_MIN:
        return Diagnosis("disk", Status.FAIL, seen, advice)
    if usage.free < usage.total * _DISK_SHARE_LOW and free_mb < _DISK_MB_PLENTY:
        return Diagnosis("disk", Status.WARN, seen, advice)
    return Diagnosis("disk", Status.OK, seen)


async def _limits(settings: Settings) -> list[Diagnosis]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    unlimited = hard == resource.RLIM_INFINITY
    available_mb = await _in_thread(_available_mb)
    return [
        files_diagnosis(None if unlimited else hard, settings.api.connections_max),
        memory_diagnosis(available_mb),
    ]


def _available_mb(path: Path = Path("/proc/meminfo")) -> int:
    """Return the memory that programs can get, in MiB, including what caches give up."""
    for line in path.read_text("ascii").splitlines():
        name, _, amount = line.partition(":")
        if name == "MemAvailable":
            return int(amount.split()[0]) // 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MIB


def files_diagnosis(files_max: int | None, connections_max: int) -> Diagnosis:
    """Return the result for the limit on open files; None means that there is none."""
    if files_max is None:
        return Diagnosis("limits", Status.OK, "the number of open files is not limited")
    seen = f"a process may open {files_max:,} files; api.connections_max is {connections_max:,}"
    # At most half of the files are for connections.
    if files_max < 2 * connections_max:
        advice = f"set LimitNOFILE={2 * connections_max} in the unit, or lower api.connections_max"
        return Diagnosis("limits", Status.WARN, seen, advice)
    return Diagnosis("limits", Status.OK, seen)


def memory_diagnosis(available_mb: int) -> Diagnosis:
    """Return the result for the free memory of this machine."""
    seen = f"{available_mb:,} MiB of memory are available"
    if available_mb < _MEMORY_MB_LOW:
        return Diagnosis("memory", Status.WARN, seen, "stop other programs, or add memory")
    return Diagnosis("memory", Status.OK, seen)


CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("settings", _settings),
    ("ledger", _ledger),
    ("hosts", _fleet),
    ("broker", _broker),
    ("keystone", _keystone),
    ("keys", _keys),
    ("disk", _disk),
    ("limits", _limits),
)
"""The checks with their names, in the order of the results."""
