"""Checks of settings before a process starts with them: the files they name, and risky values."""

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from berth.config import bus_keys, control_keys, zone_keys
from berth.config.auth_file import parse_accounts
from berth.config.json_lists import fake_hosts_of, read_image_files, read_images
from berth.config.key_file import read_keys
from berth.config.placement_policy_file import read_placement_policy
from berth.config.policy_file import load_policy
from berth.config.settings import Settings
from berth.domain.errors import BerthError, InvalidInputError

# Warn this long before a certificate expires, which leaves time for a slow certificate authority.
EXPIRY_WARNING: Final = timedelta(days=30)
_OTHERS: Final = stat.S_IRWXO
_POSTGRESQL: Final = "postgresql:"


class Role(StrEnum):
    """The kind of process that reads the settings."""

    API = "api"
    SCHEDULER = "scheduler"
    AGENT = "agent"
    ALL = "all"


class Severity(StrEnum):
    """How bad a finding is: an error keeps a process from starting or from working."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a setting, and what to do."""

    key: str
    severity: Severity
    text: str


_Check: TypeAlias = Callable[[Settings, datetime], Iterator[Finding]]


def check_settings(settings: Settings, role: Role, now: datetime) -> list[Finding]:
    """Return what is wrong with the files that settings name, and with values that are risky.

    No file is created or changed.

    Args:
        settings: valid settings.
        role: the process that would use them; `all` for every check.
        now: the time against which certificates are checked, with a time zone.
    """
    found: list[Finding] = []
    for roles, check in _CHECKS:
        if role is Role.ALL or role in roles:
            found.extend(check(settings, now))
    if role is Role.AGENT and settings.agent.gateway_url is None:
        reason = (
            "without it the agent opens the ledger itself, and a file on this host is a ledger "
            "that no API shares; set it to the address of an API"
        )
        found.append(_warning("agent.gateway_url", reason))
    # An agent reads the same list of images as an API.
    return list(dict.fromkeys(found))


def config_file_finding(file: Path, settings: Settings) -> Finding | None:
    """Return a warning if other users can read a settings file that contains secrets.

    Args:
        file: the settings file.
        settings: the settings from this file alone.
    """
    ledger, bus, keystone = settings.ledger.url, settings.bus.url, settings.keystone
    has_secret = any("@" in (url or "") for url in (ledger, bus, settings.agent.gateway_url))
    has_secret = has_secret or bool(keystone.password or keystone.application_credential_secret)
    if not has_secret or not file.stat().st_mode & _OTHERS:
        return None
    reason = (
        f"every user of this machine can read {file}, which has a password; run chmod 600 on it, "
        "or give the password in the environment"
    )
    return _warning("", reason)


def certificate_findings(
    certificate: Path, key: Path | None, now: datetime, *, names: tuple[str, str]
) -> Iterator[Finding]:
    """Yield what is wrong with a certificate and, if given, its private key.

    Args:
        certificate: the chain in PEM, whose first certificate is checked.
        key: the private key in PEM.
        now: the time, with a time zone.
        names: the settings of the certificate and of the key.
    """
    try:
        first = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
    except OSError as error:
        yield _error(names[0], _unreadable(certificate, error))
        return
    except ValueError:
        yield _error(names[0], f"{certificate} is not a certificate chain in PEM")
        return
    ends = first.not_valid_after_utc
    if now >= ends:
        yield _error(names[0], f"{certificate} expired on {ends:%Y-%m-%d}; replace it")
    elif now >= ends - EXPIRY_WARNING:
        yield _warning(names[0], f"{certificate} expires on {ends:%Y-%m-%d}; replace it soon")
    if now < first.not_valid_before_utc:
        begins = first.not_valid_before_utc
        reason = f"{certificate} is valid only from {begins:%Y-%m-%d %H:%M} UTC; check the clock"
        yield _error(names[0], reason)
    if key is not None:
        yield from _private_key_findings(first, key, names[1])


def _private_key_findings(certificate: x509.Certificate, key: Path, name: str) -> Iterator[Finding]:
    try:
        private = serialization.load_pem_private_key(key.read_bytes(), None)
    except OSError as error:
        yield _error(name, _unreadable(key, error))
        return
    except TypeError:
        yield _error(name, f"{key} is encrypted; store it without a passphrase, with mode 600")
        return
    except ValueError:
        yield _error(name, f"{key} is not a private key in PEM")
        return
    if _public_bytes(private.public_key()) != _public_bytes(certificate.public_key()):
        yield _error(name, f"{key} is not the key of the certificate; use the pair of files")
    yield from _secret_mode(name, key)


def _public_bytes(key: object) -> bytes:
    encode: Callable[..., bytes] = getattr(key, "public_bytes")  # noqa: B009 - many classes of keys
    return encode(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _secret_mode(name: str, path: Path) -> Iterator[Finding]:
    if path.is_file() and path.stat().st_mode & _OTHERS:
        reason = f"every user of this machine can read or write {path}; run chmod 600 on it"
        yield _warning(name, reason)


def _tls(settings: Settings, now: datetime) -> Iterator[Finding]:
    api = settings.api
    if api.tls_certificate is not None:
        names = ("api.tls_certificate", "api.tls_key")
        yield from certificate_findings(api.tls_certificate, api.tls_key, now, names=names)
    elif not api.listen.is_loopback and not settings.auth.mode.trusts_everyone:
        yield _warning(
            "api.listen",
            f"passwords and tokens reach {api.listen} unencrypted, unless a proxy in front of it "
            "serves HTTPS; set api.tls_certificate and api.tls_key",
        )


def _accounts(settings: Settings, _: datetime) -> Iterator[Finding]:
    path = settings.auth.htpasswd
    if path is not None:
        yield from _read("auth.htpasswd", lambda: parse_accounts(_text(path), str(path)))
        yield from _secret_mode("auth.htpasswd", path)


def _lists(settings: Settings, _: datetime) -> Iterator[Finding]:
    yield from _read("api.images", lambda: read_images(settings.api.images))
    rules = settings.placement.policy_file
    yield from _read("placement.policy_file", lambda: read_placement_policy(rules))
    folder = settings.console.novnc_dir
    if folder is not None and not folder.is_dir():
        yield _error("console.novnc_dir", f"{folder} is not a folder; install noVNC there")


def _policy(settings: Settings, _: datetime) -> Iterator[Finding]:
    yield from _read("policy.path", lambda: load_policy(settings.policy.path))


def _keys(settings: Settings, _: datetime) -> Iterator[Finding]:
    """Check files of keys that exist; a process creates those that are missing."""
    folder = settings.ledger.data_dir
    zones = settings.zones
    readers: list[tuple[str, Path | None, str, Callable[[Path], object]]] = [
        ("auth.token_keys", settings.auth.token_keys, "token-keys", read_keys),
        ("bus.key_file", settings.bus.key_file, "bus-keys", bus_keys.read_bus_keys),
        ("gateway.key_file", settings.gateway.key_file, "control-keys", control_keys.read),
    ]
    if zones.is_on:
        readers += [
            ("zones.key_file", zones.key_file, "zone-keys", zone_keys.read),
            ("zones.parents_file", zones.parents_file, "zone-parents", zone_keys.parents),
        ]
    for key, given, default, reader in readers:
        path = given or folder / default
        if path.exists():
            yield from _read(key, lambda reader=reader, path=path: reader(path))  # type: ignore[misc]
        elif given is not None and not path.parent.is_dir():
            yield _error(key, f"the folder {path.parent} is missing; create it")


def _authorities(settings: Settings, _: datetime) -> Iterator[Finding]:
    files = {
        "bus.ca_file": settings.bus.ca_file,
        "keystone.ca_file": settings.keystone.ca_file,
        "attestation.ca_file": settings.attestation.ca_file,
        "zones.ca_file": settings.zones.ca_file,
    }
    for key, path in files.items():
        yield from _authority(key, path)


def _authority(key: str, path: Path | None) -> Iterator[Finding]:
    if path is None:
        return
    try:
        x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        yield _error(key, _unreadable(path, error))
    except ValueError:
        yield _error(key, f"{path} has no certificates in PEM")


def _secrets(settings: Settings, _: datetime) -> Iterator[Finding]:
    keystone = settings.keystone
    files = {
        "keystone.password_file": keystone.password_file,
        "keystone.application_credential_secret_file": keystone.application_credential_secret_file,
    }
    for key, path in files.items():
        if path is not None:
            yield from _read(key, lambda path=path: _text(path))  # type: ignore[misc]
            yield from _secret_mode(key, path)


def _sharing(settings: Settings, _: datetime) -> Iterator[Finding]:
    url, bus = settings.ledger.url or "", settings.bus
    if url == "memory:":
        yield _warning(
            "ledger.url",
            "memory: ends with its process, and no other process can use it; only `berth up` works",
        )
    if url.startswith(_POSTGRESQL) and bus.url is None:
        yield _warning(
            "bus.url",
            "without a broker, schedulers learn of requests from the ledger only, which is slower "
            "with several APIs and schedulers; set bus.url to a RabbitMQ server",
        )
    if bus.url is not None and bus.url.startswith("amqp:") and not _is_local(bus.url):
        yield _warning("bus.url", "the password reaches the broker unencrypted; use amqps://")
    if bus.accepts_unsigned:
        yield _warning(
            "bus.accepts_unsigned",
            "anyone who can publish on the broker commands Berth; remove it after the upgrade",
        )


def _is_local(url: str) -> bool:
    host = url.rpartition("@")[2].partition("://")[2] or url.rpartition("@")[2]
    return host.startswith(("127.", "localhost", "[::1]"))


def _agent_files(settings: Settings, _: datetime) -> Iterator[Finding]:
    agent, virt = settings.agent, settings.virt
    yield from _read("agent.fleet", lambda: fake_hosts_of(agent) if agent.fleet else None)
    key, images = (
        ("virt.images", virt.images) if virt.images else ("api.images", settings.api.images)
    )
    yield from _read(key, lambda: read_image_files(images))
    yield from _authority("agent.gateway_ca_file", agent.gateway_ca_file)
    if agent.gateway_url is None:
        return
    if not agent.key_file.exists():
        reason = f"{agent.key_file} is missing; create it with `berth agent-enroll`"
        yield _error("agent.key_file", reason)
    yield from _secret_mode("agent.key_file", agent.key_file)
    password = agent.gateway_password_file
    if password is not None and not password.exists():
        yield _error(
            "agent.gateway_password_file",
            f"{password} is missing; write the password of the host into it",
        )
    elif password is not None:
        yield from _secret_mode("agent.gateway_password_file", password)


_CONTROL: Final = frozenset({Role.API, Role.SCHEDULER})
_API: Final = frozenset({Role.API})
_CHECKS: Final[tuple[tuple[frozenset[Role], _Check], ...]] = (
    (_API, _tls),
    (_API, _accounts),
    (_API, _lists),
    (_API, _secrets),
    (_CONTROL, _policy),
    (_CONTROL, _keys),
    (_CONTROL, _authorities),
    (_CONTROL, _sharing),
    (frozenset({Role.AGENT}), _agent_files),
)


def _read(key: str, reader: Callable[[], object]) -> Iterator[Finding]:
    """Yield the error of a function that reads the file of a setting."""
    try:
        reader()
    except BerthError as error:
        yield _error(key, str(error))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInputError(str(path), _reason(error)) from error


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path} {_reason(error)}"


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror}); check the path and its permissions"
    return "is not UTF-8"


def _error(key: str, text: str) -> Finding:
    return Finding(key, Severity.ERROR, text)


def _warning(key: str, text: str) -> Finding:
    return Finding(key, Severity.WARNING, text)
