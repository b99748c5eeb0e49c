"""The connections of agents to the control plane, over the transport that the URL names."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from berth.adapters.gateway.broker_names import GatewayNames
from berth.adapters.gateway.control_pins import ControlPins, pins_path
from berth.adapters.gateway.host_key import HostKeyFile
from berth.adapters.gateway.remote import Connect
from berth.adapters.gateway.websocket_client import LOOPBACK, connector
from berth.app.extras import needs_extra
from berth.config.settings import Settings
from berth.config.watched_files import OTHERS_BITS, read_lines
from berth.domain.errors import InvalidInputError

if TYPE_CHECKING:
    from berth.adapters.bus.rabbitmq import RabbitBroker

_BROKER_SCHEMES: Final = frozenset({"amqp", "amqps"})


@dataclass(frozen=True, slots=True)
class HostLink:
    """The keys and the connector with which the agent of one host reaches the control plane."""

    key: HostKeyFile
    pins: ControlPins
    connect: Connect


def link_maker(settings: Settings) -> Callable[[str], HostLink]:
    """Return the function that makes the link of a host, given the host's name.

    The returned function raises the same error if a file of the host cannot be used, or if the
    client of the broker is not installed.

    Raises:
        InvalidInputError: the URL or the file of CA certificates cannot be used.
    """
    url = settings.agent.gateway_url or ""
    if urlsplit(url).scheme in _BROKER_SCHEMES:
        _check_broker_url(url)
        return lambda host: _broker_link(settings, url, host)
    # The CA certificates are read once, however many hosts there are.
    connect = connector(url, settings.agent.gateway_ca_file)
    return lambda host: HostLink(*_files(settings, host), connect)


def _files(settings: Settings, host: str) -> tuple[HostKeyFile, ControlPins]:
    path = _path_of(settings.agent.key_file, f"{host}.key")
    return HostKeyFile(path), ControlPins(pins_path(path))


def _path_of(path: Path, name: str) -> Path:
    """Return the path of a host's file: `path` itself, or `name` in it if it is a folder."""
    return path / name if path.is_dir() else path


def _broker_link(settings: Settings, url: str, host: str) -> HostLink:
    try:
        from berth.adapters.gateway.rabbitmq import broker_connector  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise InvalidInputError("agent.gateway_url", needs_extra(error, "rabbitmq")) from error
    key, pins = _files(settings, host)
    pins.required()
    _broker(settings, url, host)  # reports wrong files at the start
    # The password is read for each connection, so that it can be changed while the agent runs.
    connect = broker_connector(lambda: _broker(settings, url, host), host, key.sign, pins)
    return HostLink(key, pins, connect)


def _broker(settings: Settings, url: str, host: str) -> "RabbitBroker":
    """Return the broker with the user and the password of a host."""
    from yarl import URL  # noqa: PLC0415 - comes with the client of the broker

    from berth.adapters.bus.rabbitmq import RabbitBroker  # noqa: PLC0415 - likewise

    ca_file, prefix = settings.agent.gateway_ca_file, settings.bus.prefix
    user = URL(url).user or GatewayNames(prefix).user(host)
    address = URL(url).with_user(user).with_password(_password(settings, host))
    broker = RabbitBroker(str(address), ca_file=ca_file, prefix=prefix)
    try:
        broker.tls()
    except (OSError, ssl.SSLError) as error:
        why = error.strerror or error
        reason = f"cannot load CA certificates from {ca_file} ({why}); name a PEM file"
        raise InvalidInputError("agent.gateway_ca_file", reason) from error
    return broker


def _check_broker_url(url: str) -> None:
    """Check the URL of a broker; errors never quote it, since it may contain a password.

    Raises:
        InvalidInputError: the URL is malformed, contains a password, or would send one unencrypted.
    """
    parts = urlsplit(url)
    if not parts.hostname or parts.query or parts.fragment:
        reason = "must be amqps://HOST:PORT/VIRTUAL-HOST, without a query or fragment"
        raise InvalidInputError("agent.gateway_url", reason)
    if parts.password is not None:
        reason = "contains a password, which others could read; use agent.gateway_password_file"
        raise InvalidInputError("agent.gateway_url", reason)
    if parts.scheme == "amqp" and parts.hostname not in LOOPBACK:
        reason = (
            "is unencrypted, which is allowed on loopback only; use amqps, and "
            "agent.gateway_ca_file if the certificate is signed by a CA of your own"
        )
        raise InvalidInputError("agent.gateway_url", reason)


def _password(settings: Settings, host: str) -> str:
    path = settings.agent.gateway_password_file
    if path is None:
        reason = "is missing; set it to the file that holds the password of the host's broker user"
        raise InvalidInputError("agent.gateway_password_file", reason)
    path = _path_of(path, f"{host}.password")
    lines = read_lines(
        path, forbidden=OTHERS_BITS, reason="others can read it; run chmod 600 on it"
    )
    if len(lines) != 1:
        raise InvalidInputError(
            str(path), f"has {len(lines)} lines, but must have exactly one, the password"
        )
    return lines[0][1]
