"""The settings of a server process: one frozen class for each section of the file."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Final, cast

from msgspec import Meta

from berth.config.agent_settings import AgentSettings, TrackingSettings
from berth.config.api_settings import (
    ApiSettings,
    AuthMode,
    AuthSettings,
    ConsoleSettings,
    PlacementSettings,
)
from berth.config.keystone_settings import KeystoneSettings
from berth.config.setting_values import Count, Expiration, Seconds
from berth.config.telemetry_settings import (
    AuditSettings,
    HealthSettings,
    LogSettings,
    MetricsSettings,
    TracingSettings,
)
from berth.config.urls import check_ledger_url, check_server_url
from berth.config.virt_settings import AgentDriver, VirtSettings
from berth.config.zone_settings import ZoneSettings
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

# -1 is "no limit".
QuotaLimit = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
MetadataLimit = Annotated[int, Meta(ge=-1, le=METADATA_ITEMS_MAX)]
FilesLimit = Annotated[int, Meta(ge=-1, le=FILES_MAX)]
FileBytesLimit = Annotated[int, Meta(ge=-1, le=FILE_BYTES_MAX)]
PathBytesLimit = Annotated[int, Meta(ge=-1, le=PATH_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """The location of the ledger: a `url`, or by default a SQLite file in `data_dir`."""

    url: str | None = field(default=None, repr=False)  # the URL may contain a password
    """URL of the ledger, which overrides `data_dir`: `sqlite:///PATH`,
    `postgresql://USER@HOST:PORT/DATABASE`, or `memory:` for one that ends with its process.
    `postgresql://USER@HOST:PORT,HOST:PORT/DATABASE` names a primary and its replicas; each
    connection goes to the primary."""
    data_dir: Path = Path("berth-data")
    """Folder of the SQLite ledger, and of the files of keys that no other setting names."""
    timeout_s: Seconds = 10.0
    """Seconds that PostgreSQL may take to answer a statement before it counts as unavailable; large
    reads may take six times as long, writes twice."""

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
    """`amqp://` or `amqps://USER:PASSWORD@HOST:PORT/VIRTUAL-HOST` of the RabbitMQ server through
    which processes call each other. Other users of the machine can see options, so prefer the file
    or the variable."""
    ca_file: Path | None = None
    """File of CA certificates for an amqps server, which replace the system's."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "berth"
    """Prefix of the names of exchanges and queues; each ledger on a virtual host needs its own."""
    # AMQP transports the prefetch count as 16 bits.
    prefetch: Annotated[int, Meta(ge=1, le=65_535)] = 256
    """Maximum number of commands that one process handles simultaneously."""
    body_bytes_max: Annotated[int, Meta(ge=65_536, le=2**29)] = 16 * 1024 * 1024
    """Size of the largest message, in bytes; a larger order goes through the ledger."""
    notifications: bool = False
    """Publish notifications of changes to an exchange; a scheduler or `berth up` does so."""
    key_file: Path | None = None
    """File of the keys that sign messages, the same for all processes on the broker; by default
    `bus-keys` in `ledger.data_dir`, which the first start creates."""
    accepts_unsigned: bool = False
    """Accept the unsigned messages of the previous version. Use it only during an upgrade, because
    it lets anyone who can publish on the broker command Berth."""

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
    """File of the keys that prove the control plane to agents over the broker, the same for all
    APIs; by default `control-keys` in `ledger.data_dir`, which the first start creates."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The policy file or the name of a ready policy; the default policy applies if it is unset."""

    path: Path | None = None
    """The policy file, or the name of a ready policy; by default the policy `default`."""
    # Reading the status of a file every 2 s is cheap, and an edit must take effect soon.
    watch_interval_s: Seconds = 2.0
    """Seconds between two checks of the file for changes."""


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
    """Seconds for which deleted servers can be restored; 0 deletes them immediately. APIs and
    schedulers must have the same value."""
    resize_in_place: bool = False
    """Let a resized instance stay on its host, where it holds both sizes until confirmation."""


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """The limits of projects that have no quota of their own; -1 means no limit."""

    instances: QuotaLimit = -1
    """Limit on the number of servers of a project."""
    cores: QuotaLimit = -1
    """Limit on the VCPUs of all servers of a project."""
    ram_mb: QuotaLimit = -1
    """Limit on the memory of all servers of a project, in MiB."""
    server_groups: QuotaLimit = -1
    """Limit on the number of server groups of a project."""
    server_group_members: QuotaLimit = -1
    """Limit on the number of members of each server group."""
    key_pairs: QuotaLimit = KEY_PAIRS_DEFAULT
    """Limit on the number of key pairs of each user."""
    metadata_items: MetadataLimit = METADATA_ITEMS_MAX
    """Limit on the number of metadata items of each server; -1 is the maximum."""
    injected_files: FilesLimit = Limits().injected_files
    """Limit on the number of files to inject into each server (`personality`); -1 is the
    maximum."""
    injected_file_content_bytes: FileBytesLimit = Limits().injected_file_content_bytes
    """Limit on the contents of each file to inject, in characters of base64; -1 is the maximum."""
    injected_file_path_bytes: PathBytesLimit = PATH_BYTES_MAX
    """Limit on the path of each file to inject, in bytes of UTF-8; -1 is the maximum."""
    images: QuotaLimit = IMAGES_DEFAULT
    """Limit on the number of images of servers of a project."""
    image_gb: QuotaLimit = IMAGE_GB_DEFAULT
    """Limit on the size of all images of servers of a project together, in GiB; the last image may
    exceed it."""

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
class AttestationSettings:
    """The attestation service that TrustedFilter queries about hosts; unused without a URL."""

    url: str | None = field(default=None, repr=False)  # the URL may contain a password
    """`https` URL of an Open Attestation service, to which `/PollHosts` is appended; schedulers
    then keep the trust levels of hosts for `TrustedFilter` fresh."""
    auth_blob: str = field(default="", repr=False)
    """Secret that is sent as `x-auth-blob`."""
    ca_file: Path | None = None
    """File of CA certificates that verify the service, which replace the system's."""
    timeout_s: Seconds = 10.0
    """Seconds that the service may take to answer."""
    valid_s: Seconds = 60.0
    """Seconds for which a trust level is valid after the service determined it, as Nova's
    `attestation_auth_timeout`; use a longer time than the service caches its own answers."""

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
class Settings:
    """All settings of a server process, section by section."""

    api: ApiSettings = field(default_factory=ApiSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    keystone: KeystoneSettings = field(default_factory=KeystoneSettings)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
    bus: BusSettings = field(default_factory=BusSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    quota: QuotaSettings = field(default_factory=QuotaSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    virt: VirtSettings = field(default_factory=VirtSettings)
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    attestation: AttestationSettings = field(default_factory=AttestationSettings)
    zones: ZoneSettings = field(default_factory=ZoneSettings)
    log: LogSettings = field(default_factory=LogSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
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
