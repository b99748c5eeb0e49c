"""Settings: frozen, read once from a TOML file, the environment and options, in rising rank."""

import ipaddress
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from berth.config.virt_settings import AgentDriver, VirtSettings
from berth.config.zone_settings import ZoneSettings
from berth.domain.compute.build_failure import HALF_LIFE_S
from berth.domain.compute.quota import Limits
from berth.domain.errors import InvalidInputError

_PORT_MAX = 65_535

_ENDPOINT: Final = re.compile(r"https?://[^/@\s]+(/[^@\s]*)?")

Count = Annotated[int, Meta(ge=1, le=1_000_000)]

Seconds = Annotated[float, Meta(gt=0, le=86_400)]

Amount = Annotated[int, Meta(ge=0, le=2**53 - 1)]

Ratio = Annotated[float, Meta(ge=0, le=10_000)]

QuotaLimit = Annotated[int, Meta(ge=-1, le=2**31 - 1)]


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


class CreateMode(StrEnum):
    """How several servers of one order are placed."""

    ALL_AT_ONCE = "all_at_once"
    """Together, all or none."""
    SINGLE_SHOT = "single_shot"
    """Each by itself, whatever becomes of the others."""


class InstanceSource(StrEnum):
    """Where schedulers have it from which instances hosts have."""

    FEED = "feed"
    CASTS = "casts"


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
class BusSettings:
    """The bus between processes, a RabbitMQ server; without a URL each process is on its own."""

    url: str | None = field(default=None, repr=False)  # it may hold a password
    ca_file: Path | None = None
    """Certificates that an amqps server's is checked against, besides the machine's own."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "berth"
    """Begins the names of exchanges and queues; one for each ledger."""
    prefetch: Annotated[int, Meta(ge=1, le=65_535)] = 256
    """Commands that one process works on at a time."""
    body_bytes_max: Annotated[int, Meta(ge=65_536, le=2**29)] = 16 * 1024 * 1024
    notifications: bool = False
    """Tell whoever reads the exchange of notifications what happens."""

    def __post_init__(self) -> None:
        """Refuse what leads to no broker, without a word of the URL, which may hold a password.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        scheme, found, rest = (self.url or "").partition("://")
        if self.url is not None and not (scheme in ("amqp", "amqps") and found and rest):
            raise InvalidInputError(
                "bus.url", "must be amqp:// or amqps://USER:PASSWORD@HOST:PORT/VIRTUAL-HOST"
            )
        if self.ca_file is not None and scheme != "amqps":
            raise InvalidInputError("bus.ca_file", "is of use with an amqps:// URL only")
        if self.notifications and self.url is None:
            raise InvalidInputError("bus.notifications", "needs bus.url: a broker to tell them by")


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
class QuotaSettings:
    """What a project may have that has no quota of its own; -1 is no limit."""

    instances: QuotaLimit = -1
    cores: QuotaLimit = -1
    ram_mb: QuotaLimit = -1
    server_groups: QuotaLimit = -1
    server_group_members: QuotaLimit = -1

    @property
    def limits(self) -> Limits:
        """The same, as the services read it."""
        return Limits(
            instances=self.instances,
            vcpus=self.cores,
            memory_mb=self.ram_mb,
            server_groups=self.server_groups,
            group_members=self.server_group_members,
        )


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
class TrackingSettings:
    """How schedulers know what instances hosts have; see docs/adr/0020-instance-information.md."""

    track_instance_changes: bool = True
    """Agents tell of instances and schedulers listen; rules about instances load only then."""
    instance_sync_interval_s: Annotated[float, Meta(ge=1, le=86_400)] = 120.0
    """How often each agent tells the whole list of its host; the same everywhere."""
    instance_information: InstanceSource = InstanceSource.FEED
    """`feed` takes instances from the ledger and checks them, `casts` takes what agents tell."""

    def __post_init__(self) -> None:
        """Refuse to rely on what nobody tells.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        if self.instance_information is InstanceSource.CASTS and not self.track_instance_changes:
            raise InvalidInputError(
                "tracking.instance_information",
                "casts needs tracking.track_instance_changes; turn that on, or use feed",
            )


@dataclass(frozen=True, slots=True)
class AttestationSettings:
    """The service that vouches for hosts, for TrustedFilter; nobody is asked without a URL."""

    url: Annotated[str, Meta(pattern="^https?://")] | None = None
    """Where `/PollHosts` is, without that."""
    auth_blob: str = field(default="", repr=False)
    ca_file: Path | None = None
    timeout_s: Seconds = 10.0
    valid_s: Seconds = 60.0
    """How long a level counts after the service has found it."""

    def __post_init__(self) -> None:
        """Refuse answers that anybody could change.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        if (self.url or "").startswith("http:"):
            raise InvalidInputError(
                "attestation.url", "anybody on the way could make hosts trusted; use https"
            )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged."""

    level: Annotated[str, Meta(pattern="^(debug|info|warning|error)$")] = "info"
    format: LogFormat = LogFormat.CONSOLE


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Metrics for Prometheus."""

    enabled: bool = True
    """Count, and show it to administrators at /metrics of the API."""
    listen: Annotated[str, Meta(pattern=r"^.+:[0-9]{1,5}$")] | None = None
    """HOST:PORT of their own for metrics and probes, without a login, instead of at the API."""


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Spans for OpenTelemetry; without an endpoint there are none."""

    endpoint: str | None = field(default=None, repr=False)  # somebody may put a key in it
    """URL that takes spans as OTLP over HTTP, `http://127.0.0.1:4318/v1/traces` say."""
    sample_ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """How many of the requests without a caller's trace are recorded."""

    def __post_init__(self) -> None:
        """Refuse what is no endpoint, without a word of the URL.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        if self.endpoint is not None and not _ENDPOINT.fullmatch(self.endpoint):
            reason = "must be http:// or https://HOST:PORT/PATH, without a user or password"
            raise InvalidInputError("tracing.endpoint", reason)


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """When a process counts as ready."""

    lag_s_max: Annotated[float, Meta(gt=0, le=86_400)] = 10.0
    """How long ago its replica may have been true to the ledger last."""
    needs_broker: bool | None = None
    """Whether it is ready without its broker; unset: schedulers and agents are not, and an API is,
    since it leaves orders in the ledger then."""


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
