"""Settings: frozen, read once from a TOML file, the environment and options, in rising rank."""

import ipaddress
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeGuard, cast, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from berth.config.attestation_settings import AttestationSettings
from berth.config.bus_settings import BusSettings
from berth.config.observing_settings import HealthSettings, MetricsSettings, TracingSettings
from berth.config.quota_settings import QuotaSettings
from berth.config.ready_policies import READY
from berth.config.spelling import nearest
from berth.config.tracking_settings import TrackingSettings
from berth.config.virt_settings import AgentDriver, VirtSettings
from berth.config.zone_settings import ZoneSettings
from berth.domain.compute.build_failure import HALF_LIFE_S
from berth.domain.errors import InvalidInputError

ENV_PREFIX = "BERTH_"

_PORT_MAX = 65_535
# Kubernetes sets BERTH_API_PORT and the like in every pod beside a service called berth-api.
_NOT_OURS = re.compile(r".*_(SERVICE_(HOST|PORT)|PORT)(_.*)?")

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Amount = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Ratio = Annotated[float, Meta(ge=0, le=10_000)]


class AuthMode(StrEnum):
    """How the API knows who calls."""

    NOAUTH = "noauth"
    NOAUTH2 = "noauth2"
    HTTP_BASIC = "http_basic"
    IDENTITY = "identity"

    @property
    def has_passwords(self) -> bool:
        """Nobody gets in without one."""
        return self in {AuthMode.HTTP_BASIC, AuthMode.IDENTITY}


class LogFormat(StrEnum):
    """How log lines are written."""

    CONSOLE = "console"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Only this machine reaches it; a name other than localhost is taken for a public one."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class CreateMode(StrEnum):
    """How several servers of one order are placed."""

    ALL_AT_ONCE = "all_at_once"
    """Together, all or none."""
    SINGLE_SHOT = "single_shot"
    """Each by itself, whatever becomes of the others."""


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The HTTP server."""

    listen: Address = Address("127.0.0.1", 8774)
    insecure_listen: bool = False
    """Allow `noauth` and `noauth2` on an address that other machines reach."""
    body_bytes_max: Annotated[int, Meta(ge=1024, le=2**30)] = 1024 * 1024
    default_availability_zone: Annotated[str, Meta(min_length=1, max_length=255)] = "nova"
    """The zone shown for hosts that no aggregate puts in one."""
    create: CreateMode = CreateMode.ALL_AT_ONCE
    """What `POST /servers` does with several servers."""
    images: Path | None = None
    """JSON list of images, with the properties that rules read; without it any id is taken."""


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """The Placement API, alone (`berth placement`) or beside the others."""

    listen: Address = Address("127.0.0.1", 8778)
    """Where `berth placement` listens; elsewhere the API is at `api.listen`, under /placement."""
    policy_file: Path | None = None
    """Lines `"rule": "check"` that take the place of the rules that Placement has by itself."""
    enforce_new_defaults: bool = False
    """Administrators may do only what the rules say: no reshape, which is for services."""
    cors_origins: tuple[str, ...] = ()
    """Where pages of browsers may come from, `https://dashboard.example` say."""
    cors_headers: tuple[str, ...] = ("openstack-api-version", "x-auth-token", "x-roles")
    """What browsers may send besides what they always may."""


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """Who may call the API."""

    mode: AuthMode = AuthMode.NOAUTH
    htpasswd: Path | None = None
    """File of `user:bcrypt-hash` lines; `berth user add` writes it."""
    admins: tuple[str, ...] = ("admin",)
    """Users who may do everything; others see their own project only."""
    token_keys: Path | None = None
    """File of keys that seal tokens, with `identity`; without it, one in `ledger.data_dir`."""
    token_lifetime_s: Seconds = 3600.0
    region: Annotated[str, Meta(min_length=1, max_length=255)] = "RegionOne"
    """What the catalog calls the region that this is."""


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Where the ledger is: `url`, or else a SQLite file in `data_dir`."""

    url: str | None = field(default=None, repr=False)  # it may hold a password
    data_dir: Path = Path("berth-data")
    timeout_s: Seconds = 10.0
    """How long PostgreSQL may take to answer before it counts as away."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The policy file or a ready policy's name; without one the default policy is in force."""

    path: Path | None = None
    watch_interval_s: Seconds = 2.0


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """How often to try."""

    claim_attempts_max: Count = 5
    """Plans for one request, when other schedulers take the room first."""
    build_attempts_max: Count = 3
    """Hosts on which one instance is tried, when builds or moves fail."""
    resize_in_place: bool = False
    """A resize may stay on the host, where old and new room count until it is confirmed."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The compute hosts that this process answers for: one, several made-up ones, or a file."""

    heartbeat_interval_s: Seconds = 10.0
    reconcile_interval_s: Seconds = 600.0
    """How often each host is compared with the ledger, beside hints of its driver."""
    restarts_max: Annotated[int, Meta(ge=0, le=1_000)] = 5
    restart_window_s: Seconds = 1_800.0
    restart_pause_s: Seconds = 10.0
    build_failure_half_life_s: Seconds = HALF_LIFE_S
    """In which time failed builds, by cause and tenant, count half as much against a host."""
    audit_interval_s: Seconds = 60.0
    """How often each host is reported anew, and what the ledger says of it is looked at."""
    driver: AgentDriver = AgentDriver.FAKE
    """What starts and stops guests; all but the fake one answer for one host."""
    host: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    fake_hosts: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    fleet: Path | None = None
    vcpus: Amount = 32
    memory_mb: Amount = 131_072
    disk_gb: Amount = 2_000
    cpu_allocation_ratio: Ratio = 0.0
    """Of every host here, before what it says itself; 0 leaves it to the host."""
    ram_allocation_ratio: Ratio = 0.0
    disk_allocation_ratio: Ratio = 0.0
    initial_cpu_allocation_ratio: Ratio = 4.0
    """Of hosts that say none themselves, when they are first registered."""
    initial_ram_allocation_ratio: Ratio = 1.0
    initial_disk_allocation_ratio: Ratio = 1.0


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged."""

    level: Annotated[str, Meta(pattern="^(debug|info|warning|error)$")] = "info"
    format: LogFormat = LogFormat.CONSOLE


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a server process, section by section."""

    api: ApiSettings = ApiSettings()
    auth: AuthSettings = AuthSettings()
    placement: PlacementSettings = PlacementSettings()
    ledger: LedgerSettings = LedgerSettings()
    bus: BusSettings = field(default_factory=BusSettings)
    policy: PolicySettings = PolicySettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    quota: QuotaSettings = field(default_factory=QuotaSettings)
    agent: AgentSettings = AgentSettings()
    virt: VirtSettings = field(default_factory=VirtSettings)
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    attestation: AttestationSettings = field(default_factory=AttestationSettings)
    zones: ZoneSettings = field(default_factory=ZoneSettings)
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    health: HealthSettings = field(default_factory=HealthSettings)

    def __post_init__(self) -> None:
        """Refuse settings that are dangerous or senseless together.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        api, auth, agent = self.api, self.auth, self.agent
        if auth.mode.has_passwords and auth.htpasswd is None:
            raise InvalidInputError(
                "auth.htpasswd",
                f"{auth.mode} needs a file of users; make one with `berth user add`",
            )
        for key, listen in (("api", api.listen), ("placement", self.placement.listen)):
            if auth.mode.has_passwords or api.insecure_listen or listen.is_loopback:
                continue
            raise InvalidInputError(
                f"{key}.listen",
                f"with {auth.mode} whoever reaches {listen} is an administrator; listen on "
                "127.0.0.1, use --auth identity, or give --insecure-listen if that is meant",
            )
        ways = {"host": agent.host, "fake_hosts": agent.fake_hosts, "fleet": agent.fleet}
        given = [f"agent.{name}" for name, value in ways.items() if value]
        if len(given) > 1:
            raise InvalidInputError(given[1], f"cannot be used with {given[0]}; give one of them")
        if agent.driver is not AgentDriver.FAKE and given not in ([], ["agent.host"]):
            raise InvalidInputError(given[0], f"is for the fake driver, not for {agent.driver}")


@dataclass(frozen=True, slots=True)
class _Given:
    """One value, where it was given, and how to read it."""

    value: object
    source: str
    folder: Path
    strict: bool


def read_settings(
    file: Path | None, environ: Mapping[str, str], options: Mapping[str, object]
) -> Settings:
    """Read settings; an option beats the environment, which beats the file.

    Args:
        file: a TOML file with one table a section (`[api]`); paths in it are relative to it.
        environ: `BERTH_<SECTION>_<KEY>` variables; all others are ignored.
        options: `section.key` to value, from the command line; None is not given.

    Raises:
        InvalidInputError: an unknown key, a wrong value, or values that do not go together.
    """
    given: dict[str, _Given] = {}
    if file is not None:
        given.update(_from_file(file))
    given.update(_from_environ(environ))
    for key, value in options.items():
        if value is not None:
            given[key] = _Given(value, f"option {key}", Path(), strict=False)
    sections: dict[str, object] = {}
    for name, section in _sections().items():
        hints = get_type_hints(section, include_extras=True)
        values = {
            key: _convert(given.pop(f"{name}.{key}"), hints[key])
            for key in hints
            if f"{name}.{key}" in given
        }
        sections[name] = section(**values)
    for key, one in given.items():
        raise InvalidInputError(one.source, f"there is no such setting; {nearest(key, _keys())}")
    return cast("Callable[..., Settings]", Settings)(**sections)


def parse_address(text: str) -> Address:
    """Read `HOST:PORT`, with an IPv6 host in brackets; port 0 takes any free one.

    Raises:
        ValueError: it is nothing like that.
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    sane = bool(host) and colon and port.isascii() and port.isdigit() and len(port) <= len("65535")
    if not sane or int(port) > _PORT_MAX or (":" in host) != bracketed:
        raise ValueError(f"{text[:80]!r} must be HOST:PORT, 127.0.0.1:8774 or [::1]:8774, say")
    return Address(host, int(port))


def _sections() -> dict[str, Callable[..., object]]:
    return {name: cast("type", hint) for name, hint in get_type_hints(Settings).items()}


def _keys() -> list[str]:
    """Return all keys, as `section.key`."""
    return [
        f"{name}.{one.name}"
        for name, section in get_type_hints(Settings).items()
        for one in fields(section)
    ]


def _from_file(file: Path) -> dict[str, _Given]:
    try:
        text = file.read_text("utf-8")
        document: dict[str, object] = tomllib.loads(text)
    except OSError as error:
        raise InvalidInputError(str(file), f"cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(str(file), f"is not valid TOML: {error}") from error
    given: dict[str, _Given] = {}
    for name, table in document.items():
        where = f"{file}: {name}"
        if name not in _sections():
            reason = f"there is no such section; {nearest(name, _sections())}"
            raise InvalidInputError(where, reason)
        if not isinstance(table, dict):
            raise InvalidInputError(where, f"must be a table; write [{name}]")
        for key, value in cast("dict[str, object]", table).items():
            source = f"{where}.{key}"
            is_name = (name, key) == ("policy", "path") and value in READY
            folder = Path() if is_name else file.parent
            given[f"{name}.{key}"] = _Given(value, source, folder, strict=True)
    return given


def _from_environ(environ: Mapping[str, str]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    for variable, value in environ.items():
        section, _, key = variable.removeprefix(ENV_PREFIX).lower().partition("_")
        # An empty variable is one that is not set, as files for containers write it.
        ours = variable.startswith(ENV_PREFIX) and section in _sections() and key and value
        if ours and not (_NOT_OURS.fullmatch(variable) and f"{section}.{key}" not in _keys()):
            given[f"{section}.{key}"] = _Given(value, variable, Path(), strict=False)
    return given


def _convert(one: _Given, hint: object) -> object:
    def read_path(kind: type, value: object) -> object:
        if kind is Path and isinstance(value, str | Path):
            return one.folder / Path(value).expanduser()
        raise TypeError(f"{value!r} must be text")

    value = one.value
    if hint is Address:
        value = _address(one)
    elif isinstance(value, str) and get_origin(hint) is tuple:
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        converted = msgspec.convert(
            value, cast("type[object]", hint), strict=one.strict, dec_hook=read_path
        )
    except (msgspec.ValidationError, OverflowError) as error:
        names = f" (one of {', '.join(hint)})" if _is_enum(hint) else ""
        reason = f"{error}{names}; it is {f'{one.value!r}'[:80]}"
        raise InvalidInputError(one.source, reason) from error
    if isinstance(converted, float) and not math.isfinite(converted):
        raise InvalidInputError(one.source, f"{converted} is not a finite number")
    return converted


def _is_enum(hint: object) -> TypeGuard[type[StrEnum]]:
    return isinstance(hint, type) and issubclass(hint, StrEnum)


def _address(one: _Given) -> Address:
    try:
        return parse_address(one.value if isinstance(one.value, str) else repr(one.value))
    except ValueError as error:
        raise InvalidInputError(one.source, str(error)) from error
