"""The settings of a server process: one frozen class for each section of the file."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Final, TypeAlias, cast

from msgspec import Meta

from berth.config.keystone_settings import KeystoneSettings
from berth.config.urls import check_ledger_url, check_origin, check_server_url
from berth.config.virt_settings import AgentDriver, VirtSettings
from berth.config.zone_settings import ZoneSettings
from berth.domain.compute.build_failure import HALF_LIFE_S
from berth.domain.compute.decision import RefusalDetail
from berth.domain.compute.quota import (
    FILE_BYTES_MAX,
    FILES_MAX,
    IMAGE_GB_DEFAULT,
    IMAGES_DEFAULT,
    KEY_PAIRS_DEFAULT,
    METADATA_ITEMS_MAX,
    PATH_BYTES_MAX,
    Limits,
)
from berth.domain.errors import InvalidInputError
from berth.domain.url_redaction import redact_url

_PORT_MAX = 65_535
# An endpoint has no `@`, and so no user or password, because exporters write it into error logs.
_ENDPOINT: Final = re.compile(r"https?://[^/@\s]+(/[^@\s]*)?")

# Upper bounds catch slips such as milliseconds given as seconds; no deployment needs more.
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
# Seconds: 0 means never, and the maximum is about ten years.
Expiration = Annotated[float, Meta(ge=0, le=315_360_000)]
# A float, and so any JSON reader, represents every integer up to this one exactly.
Amount = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Ratio = Annotated[float, Meta(ge=0, le=10_000)]
WATCHED_FLAVORS_MAX: Final = 50
"""Maximum number of flavors that metrics name."""
# -1 is "no limit".
QuotaLimit = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
MetadataLimit = Annotated[int, Meta(ge=-1, le=METADATA_ITEMS_MAX)]
FilesLimit = Annotated[int, Meta(ge=-1, le=FILES_MAX)]
FileBytesLimit = Annotated[int, Meta(ge=-1, le=FILE_BYTES_MAX)]
PathBytesLimit = Annotated[int, Meta(ge=-1, le=PATH_BYTES_MAX)]


class AuthMode(StrEnum):
    """The method by which the API authenticates callers."""

    NOAUTH = "noauth"
    NOAUTH2 = "noauth2"
    HTTP_BASIC = "http_basic"
    IDENTITY = "identity"
    KEYSTONE = "keystone"

    @property
    def has_passwords(self) -> bool:
        """Whether Berth itself checks the passwords of all callers."""
        return self in {AuthMode.HTTP_BASIC, AuthMode.IDENTITY}

    @property
    def trusts_everyone(self) -> bool:
        """Whether any caller can be an administrator."""
        return self in {AuthMode.NOAUTH, AuthMode.NOAUTH2}


LevelOfEvent: TypeAlias = Annotated[
    str, Meta(pattern="^[a-z0-9_]{1,80}=(debug|info|warning|error|off)$")
]


class LogFormat(StrEnum):
    """The format of log lines."""

    CONSOLE = "console"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port at which a server listens."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address; False for names other than localhost."""
        # A name is not resolved, because the result could change after the check.
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address in a string `HOST:PORT`, with an IPv6 host in brackets.

    Port 0 lets the system choose a free port.

    Raises:
        ValueError: the string has another form.
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    sane = bool(host) and colon and port.isascii() and port.isdigit() and len(port) <= len("65535")
    if not sane or int(port) > _PORT_MAX or (":" in host) != bracketed:
        # An operator may have given a URL by mistake, and it may contain a password.
        shown = redact_url(text) if "@" in text else text
        raise ValueError(f"{shown[:80]!r} must be HOST:PORT, such as 127.0.0.1:8774 or [::1]:8774")
    return Address(host, int(port))


class CreateMode(StrEnum):
    """The placement of the servers of one create request."""

    ALL_AT_ONCE = "all_at_once"
    """All servers are placed together, or none is."""
    SINGLE_SHOT = "single_shot"
    """Each server is placed independently of the others."""


class InstanceSource(StrEnum):
    """The source from which schedulers learn which instances each host has."""

    FEED = "feed"
    CASTS = "casts"


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The HTTP server."""

    # The default is a loopback address, because in the default mode every caller is an
    # administrator.
    listen: Address = Address("127.0.0.1", 8774)
    insecure_listen: bool = False
    """Allow `noauth` and `noauth2` on an address that other machines can reach."""
    body_bytes_max: Annotated[int, Meta(ge=1024, le=2**30)] = 1024 * 1024
    # Nova's `default_availability_zone` has the same default (nova-behaviour.md 2.6).
    default_availability_zone: Annotated[str, Meta(min_length=1, max_length=255)] = "nova"
    """The availability zone of hosts to which no aggregate assigns one."""
    create: CreateMode = CreateMode.ALL_AT_ONCE
    """The placement of the servers of one `POST /servers`."""
    # Nova's `enable_instance_password` has the same default.
    enable_instance_password: bool = True
    """Return `adminPass` from creates, rebuilds, rescues and evacuations; guests do not get it."""
    refusals: RefusalDetail = RefusalDetail.RELAXATIONS
    """What tenants read when no host is found; administrators read everything."""
    images: Path | None = None
    """JSON list of images with the properties that rules read; by default any id is accepted."""
    tls_certificate: Path | None = None
    """Certificate chain in PEM; with it the API is served over HTTPS."""
    tls_key: Path | None = None
    """Private key of the certificate, in PEM."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies whose `X-Forwarded-For` names the client."""
    connections_max: Annotated[int, Meta(ge=16, le=1_000_000)] = 4096
    """Maximum number of open HTTP connections; at the limit, a new one replaces an idle one."""

    def __post_init__(self) -> None:
        """Reject a certificate without a key, a key without a certificate, and malformed proxies.

        Raises:
            InvalidInputError: the error names the setting that is missing or malformed.
        """
        for network in self.trusted_proxies:
            _check_network(network)
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_certificate"
            raise InvalidInputError(f"api.{missing}", "is missing; HTTPS needs both files")


def _check_network(text: str) -> None:
    try:
        ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidInputError(
            "api.trusted_proxies",
            f"{text[:80]!r} must be an address or a network, such as 10.1.0.5 or 10.1.0.0/24",
        ) from error


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The consoles of servers in browsers."""

    # Nova's `[consoleauth] token_ttl` has the same default.
    token_lifetime_s: Seconds = 600.0
    """Seconds for which the URL of a console is valid; open consoles stay open."""
    novnc_url: str | None = field(default=None, repr=False)
    """URL of noVNC's page, on a host that passes WebSocket requests on to the API."""
    novnc_dir: Path | None = None
    """Folder with the files of noVNC, which the API serves under /novnc."""
    allowed_origins: tuple[str, ...] = ()
    """Further origins of pages that may open consoles, such as `https://dashboard.example`."""

    def __post_init__(self) -> None:
        """Reject a malformed URL, and origins that no browser sends.

        Raises:
            InvalidInputError: the error names the key and the valid forms.
        """
        if self.novnc_url is not None:
            form = "https://HOST:PORT/PATH, such as https://novnc.example/vnc_lite.html"
            check_server_url(self.novnc_url, "console.novnc_url", {"http", "https"}, form)
        for origin in self.allowed_origins:
            check_origin(origin, "console.allowed_origins")
            if origin == "*":
                reason = "must name the origins; * would let any page use a leaked URL"
                raise InvalidInputError("console.allowed_origins", reason)


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """The Placement API, served alone (`berth placement`) or together with the other APIs."""

    listen: Address = Address("127.0.0.1", 8778)
    """The address of `berth placement`; other processes serve /placement at `api.listen`."""
    policy_file: Path | None = None
    """File of lines `"rule": "check"`, which replace Placement's default rules."""
    enforce_new_defaults: bool = False
    """Give administrators only the rights that the rules grant, which do not include reshaping."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the API, such as `https://dashboard.example`."""
    cors_headers: tuple[str, ...] = ("openstack-api-version", "x-auth-token", "x-roles")
    """Request headers that browsers may send besides those that CORS always allows."""

    def __post_init__(self) -> None:
        """Reject origins that no browser sends.

        Raises:
            InvalidInputError: the error names the key and the valid forms.
        """
        for origin in self.cors_origins:
            check_origin(origin, "placement.cors_origins")


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """Authentication of callers of the API."""

    mode: AuthMode = AuthMode.NOAUTH
    htpasswd: Path | None = None
    """File of `user:bcrypt-hash` lines; `berth user add` writes it. Mode `keystone` reads only the
    accounts of parent zones from it."""
    admins: tuple[str, ...] = ("admin",)
    """Users with all rights; other users see only their own project."""
    token_keys: Path | None = None
    """File of the keys that seal tokens in mode `identity`; by default in `ledger.data_dir`."""
    token_lifetime_s: Seconds = 3600.0
    region: Annotated[str, Meta(min_length=1, max_length=255)] = "RegionOne"
    """The name of this region in the service catalog."""


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """The location of the ledger: a `url`, or by default a SQLite file in `data_dir`."""

    url: str | None = field(default=None, repr=False)  # the URL may contain a password
    data_dir: Path = Path("berth-data")
    timeout_s: Seconds = 10.0
    """Seconds that PostgreSQL may take to answer before it counts as unavailable."""

    def __post_init__(self) -> None:
        """Reject a malformed URL; the error does not quote it, because it may contain a password.

        Raises:
            InvalidInputError: the error names the key and the valid forms.
        """
        if self.url is not None:
            check_ledger_url(self.url, "ledger.url")


@dataclass(frozen=True, slots=True)
class BusSettings:
    """The bus, a RabbitMQ server; without a URL, APIs and schedulers share only the ledger."""

    url: str | None = field(default=None, repr=False)  # the URL may contain a password
    ca_file: Path | None = None
    """File of CA certificates for an amqps server, which replace the system's."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "berth"
    """Prefix of the names of exchanges and queues; it must differ between ledgers."""
    # AMQP transports the prefetch count as 16 bits.
    prefetch: Annotated[int, Meta(ge=1, le=65_535)] = 256
    """Maximum number of commands that one process handles simultaneously."""
    body_bytes_max: Annotated[int, Meta(ge=65_536, le=2**29)] = 16 * 1024 * 1024
    notifications: bool = False
    """Publish notifications of changes to an exchange."""
    key_file: Path | None = None
    """File of the keys that sign messages; by default `bus-keys` in `ledger.data_dir`."""
    accepts_unsigned: bool = False
    """Accept the unsigned messages of the previous version, while it still runs somewhere."""

    def __post_init__(self) -> None:
        """Reject a malformed URL, and settings that the URL does not support.

        Errors do not quote the URL, which may contain a password.

        Raises:
            InvalidInputError: the error names the key and the remedy.
        """
        if self.url is not None:
            form = "amqp://USER:PASSWORD@HOST:PORT/VIRTUAL-HOST, or amqps://..."
            check_server_url(self.url, "bus.url", {"amqp", "amqps"}, form)
        if self.ca_file is not None and not (self.url or "").startswith("amqps:"):
            raise InvalidInputError(
                "bus.ca_file", "applies only to an amqps:// URL; use such a URL, or remove this"
            )
        if self.notifications and self.url is None:
            raise InvalidInputError("bus.notifications", "requires a broker; set bus.url")


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The transports through which agents reach an API besides its own port."""

    rabbitmq: bool = False
    """Serve agents over the broker of `bus.url` as well."""
    key_file: Path | None = None
    """File of the keys that prove the control plane to agents; by default in `ledger.data_dir`."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The policy file or the name of a ready policy; the default policy applies if it is unset."""

    path: Path | None = None
    # Reading the status of a file every 2 s is cheap, and an edit must take effect soon.
    watch_interval_s: Seconds = 2.0


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The limits of retries, and the placement of resized instances."""

    claim_attempts_max: Count = 5
    """Maximum number of plans for one request when other schedulers claim the capacity first."""
    # Nova's `max_attempts` has the same default (nova-behaviour.md 2.5).
    build_attempts_max: Count = 3
    """Maximum number of hosts on which one instance is tried when builds or moves fail."""
    # Nova's `resize_confirm_window` has the same default.
    resize_confirm_window_s: Expiration = 0.0
    """Seconds after which an unconfirmed resize or cold migration is confirmed; 0 means never."""
    # Nova's `reclaim_instance_interval` has the same default.
    reclaim_instance_interval_s: Expiration = 0.0
    """Seconds for which deleted servers can be restored; 0 deletes them immediately."""
    resize_in_place: bool = False
    """Let a resized instance stay on its host, where it holds both sizes until confirmation."""


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """The limits of projects that have no quota of their own; -1 means no limit."""

    instances: QuotaLimit = -1
    cores: QuotaLimit = -1
    ram_mb: QuotaLimit = -1
    server_groups: QuotaLimit = -1
    server_group_members: QuotaLimit = -1
    key_pairs: QuotaLimit = KEY_PAIRS_DEFAULT
    """Limit of key pairs for each user."""
    metadata_items: MetadataLimit = METADATA_ITEMS_MAX
    """Limit of metadata items for each server."""
    injected_files: FilesLimit = Limits().injected_files
    """Limit on the number of files to inject into each server."""
    injected_file_content_bytes: FileBytesLimit = Limits().injected_file_content_bytes
    """Limit on the contents of each file to inject, in characters of base64."""
    injected_file_path_bytes: PathBytesLimit = PATH_BYTES_MAX
    """Limit on the path of each file to inject, in bytes of UTF-8."""
    images: QuotaLimit = IMAGES_DEFAULT
    """Limit on the number of images of servers."""
    image_gb: QuotaLimit = IMAGE_GB_DEFAULT
    """Limit on the size of all images of servers together, in GiB."""

    @property
    def limits(self) -> Limits:
        """The limits as a domain object."""
        return Limits(
            instances=self.instances,
            vcpus=self.cores,
            memory_mb=self.ram_mb,
            server_groups=self.server_groups,
            group_members=self.server_group_members,
            key_pairs=self.key_pairs,
            metadata_items=self.metadata_items,
            injected_files=self.injected_files,
            injected_file_content_bytes=self.injected_file_content_bytes,
            injected_file_path_bytes=self.injected_file_path_bytes,
            images=self.images,
            image_gb=self.image_gb,
        )


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The compute hosts of this process: one host, several fake ones, or those in a file."""

    # Nova's `report_interval` has the same default (nova-behaviour.md 5.5).
    heartbeat_interval_s: Seconds = 10.0
    # The driver reports changes immediately, so the full comparison only catches lost events.
    reconcile_interval_s: Seconds = 600.0
    """Seconds between full comparisons of a host's guests with its instances."""
    isolated_pause_s: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    """Seconds without the control plane after which guests are paused; 0 keeps them running."""
    restarts_max: Annotated[int, Meta(ge=0, le=1_000)] = 5
    restart_window_s: Seconds = 1_800.0
    restart_pause_s: Seconds = 10.0
    build_failure_half_life_s: Seconds = HALF_LIFE_S
    """Seconds in which the weight of a failed build against its host halves."""
    audit_interval_s: Seconds = 60.0
    """Seconds between two reports of a host, each with an audit."""
    driver: AgentDriver = AgentDriver.FAKE
    """The virtualisation driver; every driver but the fake one serves a single host."""
    host: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    gateway_url: str | None = field(default=None, repr=False)  # it may contain a password
    """URL of the API, or of the broker, through which the agent reaches the control plane."""
    gateway_ca_file: Path | None = None
    """File of CA certificates for `gateway_url`, which replace the system's."""
    gateway_password_file: Path | None = None
    """File with the host's password at the broker, or a folder of one file per simulated host."""
    key_file: Path = Path("berth-agent.key")
    """File of the host's private key, which `berth agent-enroll` creates; or a folder with one file
    for each host."""
    fake_hosts: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    fleet: Path | None = None
    vcpus: Amount = 32
    memory_mb: Amount = 131_072
    disk_gb: Amount = 2_000
    cpu_allocation_ratio: Ratio = 0.0
    """CPU ratio of all hosts of this process, which overrides their own ratios; 0 keeps those."""
    ram_allocation_ratio: Ratio = 0.0
    disk_allocation_ratio: Ratio = 0.0
    initial_cpu_allocation_ratio: Ratio = 4.0
    """CPU ratio of a host that reports none at its first registration."""
    initial_ram_allocation_ratio: Ratio = 1.0
    initial_disk_allocation_ratio: Ratio = 1.0

    def __post_init__(self) -> None:
        """Reject a malformed URL; the error does not quote it, because it may contain a password.

        Raises:
            InvalidInputError: the error names the key and the valid forms.
        """
        if self.gateway_url is not None:
            is_broker = self.gateway_url.startswith("amqp")
            schemes = {"amqp", "amqps"} if is_broker else {"http", "https"}
            form = "amqps://HOST:PORT/VIRTUAL-HOST" if is_broker else "https://HOST:PORT"
            check_server_url(self.gateway_url, "agent.gateway_url", schemes, form)


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    """The tracking of each host's instances; see docs/adr/0020-instance-information.md."""

    track_instance_changes: bool = True
    """Agents report instances to schedulers; rules about instances require this."""
    # Nova's `scheduler_instance_sync_interval` has the same default.
    instance_sync_interval_s: Annotated[float, Meta(ge=1, le=86_400)] = 120.0
    """Seconds between an agent's full instance lists; it must be the same in all processes."""
    instance_information: InstanceSource = InstanceSource.FEED
    """`feed` reads instances from the ledger and verifies them; `casts` uses agents' reports."""

    def __post_init__(self) -> None:
        """Reject casts as the source if agents do not send any.

        Raises:
            InvalidInputError: the error names the key and the remedy.
        """
        if self.instance_information is InstanceSource.CASTS and not self.track_instance_changes:
            raise InvalidInputError(
                "tracking.instance_information",
                "casts requires tracking.track_instance_changes; turn that on, or use feed",
            )


@dataclass(frozen=True, slots=True)
class AttestationSettings:
    """The attestation service that TrustedFilter queries about hosts; unused without a URL."""

    url: str | None = field(default=None, repr=False)  # the URL may contain a password
    """The base URL; `/PollHosts` is appended to it."""
    auth_blob: str = field(default="", repr=False)
    ca_file: Path | None = None
    timeout_s: Seconds = 10.0
    valid_s: Seconds = 60.0
    """Seconds for which a trust level is valid after the service determined it."""

    def __post_init__(self) -> None:
        """Reject a URL without TLS, whose responses could be forged.

        Raises:
            InvalidInputError: the error names the key and the remedy.
        """
        if self.url is None:
            return
        check_server_url(self.url, "attestation.url", {"http", "https"}, "https://HOST:PORT/PATH")
        if self.url.startswith("http:"):
            raise InvalidInputError(
                "attestation.url", "without TLS an attacker could mark hosts as trusted; use https"
            )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The content, the format and the destination of the log."""

    level: Annotated[str, Meta(pattern="^(debug|info|warning|error)$")] = "info"
    """The lowest level that is logged."""
    levels: tuple[LevelOfEvent, ...] = ()
    """Lowest levels of single events, above `level`: `http_request=warning`, `task_started=off`.
    """
    format: LogFormat = LogFormat.CONSOLE
    file: Path | None = None
    """File for the log; without it, lines go to standard error."""
    rotate_mb: Annotated[int, Meta(ge=0, le=1024 * 1024)] = 0
    """Size in MiB at which the file is renamed to `NAME.1`; 0 leaves that to other programs."""
    rotate_kept: Annotated[int, Meta(ge=0, le=1000)] = 5
    """Number of renamed files that are kept."""
    sample_reads: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Share of the successful GET and HEAD requests that are logged."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The audit log in the ledger."""

    log: bool = True
    """Record who changed what."""
    log_keep_days: Annotated[int, Meta(ge=0, le=36_500)] = 400
    """Days for which entries are kept; 0 keeps them for ever."""


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Metrics for Prometheus."""

    enabled: bool = True
    """Collect metrics, and serve them to administrators at /metrics of the API."""
    listen: Address | None = None
    """HOST:PORT that serves metrics and probes without authentication, in place of the API."""
    flavors: Annotated[tuple[str, ...], Meta(max_length=WATCHED_FLAVORS_MAX)] = ()
    """Names of the flavors whose slots are counted; by default up to 20 public ones."""


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Spans for OpenTelemetry; none are recorded without an endpoint."""

    endpoint: str | None = field(default=None, repr=False)  # it may contain an API key
    """URL that accepts spans as OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`."""
    sample_ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """The share of requests that are recorded if their caller sends no trace to continue."""

    def __post_init__(self) -> None:
        """Reject a malformed endpoint; the error does not quote it.

        Raises:
            InvalidInputError: the error names the key and the valid form.
        """
        if self.endpoint is None:
            return
        form = "http://HOST:PORT/PATH or https://..., without a user or password"
        if not _ENDPOINT.fullmatch(self.endpoint):
            raise InvalidInputError("tracing.endpoint", f"must be {form}")
        check_server_url(self.endpoint, "tracing.endpoint", {"http", "https"}, form)


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """The conditions under which a process is ready, and silent hosts count as down."""

    lag_s_max: Annotated[float, Meta(gt=0, le=86_400)] = 10.0
    """Maximum time in seconds since the replica of a ready process last equalled the ledger."""
    silent_share_max: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Share of the hosts that may fall silent at once and count as down. If more do, requests that
    find no host wait, and evacuations must be forced."""
    needs_broker: bool | None = None
    """Whether readiness requires the broker. By default schedulers require it, and agents that use
    the ledger; an API does not, because it can leave orders in the ledger."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a server process, section by section."""

    api: ApiSettings = ApiSettings()
    auth: AuthSettings = AuthSettings()
    keystone: KeystoneSettings = field(default_factory=KeystoneSettings)
    console: ConsoleSettings = ConsoleSettings()
    placement: PlacementSettings = PlacementSettings()
    ledger: LedgerSettings = LedgerSettings()
    bus: BusSettings = field(default_factory=BusSettings)
    gateway: GatewaySettings = GatewaySettings()
    policy: PolicySettings = PolicySettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    quota: QuotaSettings = field(default_factory=QuotaSettings)
    agent: AgentSettings = AgentSettings()
    virt: VirtSettings = field(default_factory=VirtSettings)
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    attestation: AttestationSettings = field(default_factory=AttestationSettings)
    zones: ZoneSettings = field(default_factory=ZoneSettings)
    log: LogSettings = LogSettings()
    audit: AuditSettings = AuditSettings()
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    health: HealthSettings = field(default_factory=HealthSettings)

    def __post_init__(self) -> None:
        """Reject combinations of settings that are dangerous or contradictory.

        Raises:
            InvalidInputError: the error names the key and the remedy.
        """
        sections = {one.name: getattr(self, one.name) for one in fields(self)}
        for error in contradictions(sections):
            raise error


def contradictions(sections: Mapping[str, object]) -> Iterator[InvalidInputError]:
    """Yield the errors of settings that contradict settings of other sections.

    Args:
        sections: the sections by name. A rule applies only if all of its sections are present.
    """
    for names, rule in _RULES:
        if all(name in sections for name in names):
            yield from rule(cast("Settings", SimpleNamespace(**sections)))


def _accounts(settings: Settings) -> Iterator[InvalidInputError]:
    auth = settings.auth
    if auth.mode.has_passwords and auth.htpasswd is None:
        yield InvalidInputError(
            "auth.htpasswd",
            f"{auth.mode} requires a file of users; create one with `berth user add`",
        )


def _keystone(settings: Settings) -> Iterator[InvalidInputError]:
    if settings.auth.mode is AuthMode.KEYSTONE and settings.keystone.auth_url is None:
        yield InvalidInputError(
            "keystone.auth_url", "is missing; set the URL of the Keystone that validates tokens"
        )


def _broker(settings: Settings) -> Iterator[InvalidInputError]:
    if settings.gateway.rabbitmq and settings.bus.url is None:
        yield InvalidInputError("gateway.rabbitmq", "requires a broker; set bus.url")


def _addresses(settings: Settings) -> Iterator[InvalidInputError]:
    # In a mode that trusts everyone, any caller can be an administrator, so an address other
    # than loopback must be a deliberate choice.
    api, auth = settings.api, settings.auth
    for key, listen in (("api", api.listen), ("placement", settings.placement.listen)):
        if not auth.mode.trusts_everyone or api.insecure_listen or listen.is_loopback:
            continue
        yield InvalidInputError(
            f"{key}.listen",
            f"with {auth.mode} everyone who can reach {listen} is an administrator; listen on "
            "127.0.0.1, use --auth identity, or pass --insecure-listen if this is intended",
        )


def _agent(settings: Settings) -> Iterator[InvalidInputError]:
    agent = settings.agent
    ways = {"host": agent.host, "fake_hosts": agent.fake_hosts, "fleet": agent.fleet}
    given = [f"agent.{name}" for name, value in ways.items() if value]
    if len(given) > 1:
        yield InvalidInputError(given[1], f"cannot be combined with {given[0]}; set only one")
    if agent.driver is not AgentDriver.FAKE and given not in ([], ["agent.host"]):
        yield InvalidInputError(
            given[0], f"applies only to the fake driver, not to {agent.driver}; remove it"
        )


_RULES: Final[
    tuple[tuple[tuple[str, ...], Callable[[Settings], Iterator[InvalidInputError]]], ...]
] = (
    (("auth",), _accounts),
    (("auth", "keystone"), _keystone),
    (("gateway", "bus"), _broker),
    (("api", "auth", "placement"), _addresses),
    (("agent",), _agent),
)
