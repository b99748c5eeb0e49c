"""The settings of the HTTP server, its consoles and its authentication, and of Placement."""

import ipaddress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from berth.config.setting_values import Address, Seconds
from berth.config.urls import check_origin, check_server_url
from berth.domain.compute.decision import RefusalDetail
from berth.domain.errors import InvalidInputError

# The defaults are loopback addresses, because in the default mode every caller is an administrator.
_API_LISTEN: Final = Address("127.0.0.1", 8774)
_PLACEMENT_LISTEN: Final = Address("127.0.0.1", 8778)


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


class CreateMode(StrEnum):
    """The placement of the servers of one create request."""

    ALL_AT_ONCE = "all_at_once"
    """All servers are placed together, or none is."""
    SINGLE_SHOT = "single_shot"
    """Each server is placed independently of the others."""


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The HTTP server."""

    listen: Address = _API_LISTEN
    """Address at which the API listens, as `HOST:PORT` or `[IPV6]:PORT`; port 0 takes any free
    port."""
    insecure_listen: bool = False
    """Allow `noauth` and `noauth2` on an address that other machines can reach."""
    body_bytes_max: Annotated[int, Meta(ge=1024, le=2**30)] = 1024 * 1024
    """Size of the largest request body, in bytes."""
    # Nova's `default_availability_zone` has the same default (nova-behaviour.md 2.6).
    default_availability_zone: Annotated[str, Meta(min_length=1, max_length=255)] = "nova"
    """The availability zone of hosts to which no aggregate assigns one; it must equal the option of
    `AvailabilityZoneFilter`, or of the driver `availability_zone`."""
    create: CreateMode = CreateMode.ALL_AT_ONCE
    """The placement of the servers of one `POST /servers`. `all_at_once` places them together, all
    or none. With `single_shot` the next free scheduler places each separately, which is faster for
    many servers and worse for groups. `POST /zones/servers` is always all at once."""
    # Nova's `enable_instance_password` has the same default.
    enable_instance_password: bool = True
    """Return `adminPass` from creates, rebuilds, rescues and, before 2.14, evacuations, as Nova
    does; no driver sets the password in guests."""
    refusals: RefusalDetail = RefusalDetail.RELAXATIONS
    """What tenants read when no host is found: `full` (numbers of hosts, names of rules, and the
    changes that would help), `relaxations` (only the changes), or `nothing`, as in Nova.
    Administrators read everything."""
    images: Path | None = None
    """JSON list of images with the properties that rules read (`image_id`, `name`, `properties`,
    `min_memory_mb`, `min_disk_gb`); by default any image id is accepted, without properties."""
    tls_certificate: Path | None = None
    """Certificate chain in PEM, with which the API serves HTTPS; it needs `api.tls_key`."""
    tls_key: Path | None = None
    """Private key of the certificate, in PEM."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies whose `X-Forwarded-For` names the client, such as
    `10.0.0.9` or `10.1.0.0/24`; the header of other clients is ignored."""
    connections_max: Annotated[int, Meta(ge=16, le=1_000_000)] = 4096
    """Maximum number of open HTTP connections, without those of agents; never more than half of the
    files that the process may open. At the limit, a new connection replaces one that is idle or
    still in its TLS handshake: of the address with the most of these, the oldest. If there is none,
    the new connection is closed."""

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
    """Seconds for which the URL of a VNC console is valid; open consoles stay open."""
    novnc_url: str | None = field(default=None, repr=False)
    """URL of noVNC's page on another web server, which passes WebSocket requests on to the API."""
    novnc_dir: Path | None = None
    """Folder with the files of noVNC, which the API serves under `/novnc`."""
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

    listen: Address = _PLACEMENT_LISTEN
    """The address of `berth placement`; other processes serve /placement at `api.listen`."""
    policy_file: Path | None = None
    """File of lines `"rule": "check"`, which replace Placement's default rules."""
    enforce_new_defaults: bool = False
    """Give administrators only the rights that the rules grant, which do not include reshaping."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the API, such as `https://dashboard.example`; `*` for
    all."""
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
    """The method by which the API authenticates callers. `noauth` and `noauth2` trust every caller,
    `http_basic` accepts passwords, `identity` passwords and Berth's own tokens, and `keystone` the
    tokens of an external Keystone."""
    htpasswd: Path | None = None
    """File of `user:bcrypt-hash` lines, which `berth user add` writes; required by `http_basic` and
    `identity`. Mode `keystone` reads only the accounts of parent zones from it."""
    admins: tuple[str, ...] = ("admin",)
    """Users with all rights; other users see only their own project."""
    token_keys: Path | None = None
    """File of the keys that seal tokens in mode `identity`; by default `token-keys` in
    `ledger.data_dir`, which the first start creates."""
    token_lifetime_s: Seconds = 3600.0
    """Seconds for which a token is valid."""
    region: Annotated[str, Meta(min_length=1, max_length=255)] = "RegionOne"
    """The name of this region in the service catalog."""
