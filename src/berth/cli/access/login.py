"""What a client needs for requests: address, password or token, and how to verify certificates."""

import ipaddress
import shlex
import ssl
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click
import httpx

from berth.cli.access.access import Access, Value
from berth.cli.access.cloud_account import PASSWORD, TOKEN, CloudAccount
from berth.cli.access.sign_in import sign_in
from berth.cli.failures import CommandError, ExitCode
from berth.client import NO_RETRIES, Client
from berth.domain.url_redaction import redact_url

_BYTES_MAX: Final = 8 * 1024
# The newest compute microversion whose responses the commands are written for. A fixed version
# keeps the output stable when the service is upgraded.
_VERSION: Final = "compute 2.96"
# Longer than a large read of the ledger may take (60 s by default), so that the service can report
# a slow ledger itself.
_TIMEOUT_S: Final = 90.0
_COMMAND_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Login:
    """An address, and the credentials to send there.

    Attributes:
        url: the address of Berth.
        user: the user for HTTP Basic, or None.
        password: the user's password; empty without a user.
        token: the token to send as X-Auth-Token, or None.
        tls: how certificates are verified; None by the system's authorities.
    """

    url: str
    user: str | None
    password: str
    token: str | None
    tls: ssl.SSLContext | None


def log_in(access: Access, *, may_ask: bool = True) -> Login:
    """Return the credentials for an access; sign in first if it is an account of a cloud.

    Args:
        access: the access.
        may_ask: whether a missing password may be requested, or given by a command, which may
            request something itself.

    Raises:
        CommandError: the URL is invalid, a file cannot be used, no password is given, or the
            sign-in fails.
    """
    tls = _tls(access)
    user, token, url = access.text("user"), access.text("token"), access.values.get("url")
    if url is not None:
        check_url(url.text, url.origin)
    if access.cloud is not None:
        account = _completed(access, access.cloud, may_ask=may_ask)
        check_url(account.auth["auth_url"], f"auth_url of {account.origin}")
        signed = sign_in(account, tls, trust_env=trusts_proxies(account.auth["auth_url"]))
        return Login(signed.url if url is None else url.text, None, "", signed.token, tls)
    password = _password(access, user, may_ask=may_ask) if user else ""
    return Login("" if url is None else url.text, user, password, token, tls)


def opened(login: Login, timeout_s: float = _TIMEOUT_S) -> Client:
    """Return a client for Berth's own API that sends the given credentials."""
    headers = {"OpenStack-API-Version": _VERSION}
    if login.token:
        headers["X-Auth-Token"] = login.token
    auth = (login.user, login.password) if login.user else None
    # Repetitions would delay the report that the service is away by seconds.
    return Client(
        login.url,
        auth=auth,
        headers=headers,
        tls=login.tls,
        retries=NO_RETRIES,
        timeout_s=timeout_s,
    )


def check_url(url: str, origin: str = "--url") -> httpx.URL:
    """Return the parsed URL of a service.

    Args:
        url: the URL.
        origin: where it comes from, for the error.

    Raises:
        CommandError: the URL is not an HTTP URL with a host. The error shows no password.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        # The original error is dropped, because it may quote a part of the password as the port.
        where = "--url" if origin in ("BERTH_URL", "--url") else origin
        raise CommandError(
            f"{where} {redact_url(url)[:80]!r} must be an HTTP URL with a host, such as "
            "http://127.0.0.1:8774",
            ExitCode.USAGE,
        )
    return parsed


def trusts_proxies(url: str) -> bool:
    """Return whether proxies from the environment are used for a URL."""
    # A proxy cannot reach this machine's loopback address.
    host = httpx.URL(url).host
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def _completed(access: Access, account: CloudAccount, *, may_ask: bool) -> CloudAccount:
    """Return the account of a cloud with the user, password or token that options give."""
    auth = dict(account.auth)
    if token := access.text("token"):
        return replace(account, method=TOKEN, auth=auth | {"token": token})
    user = access.text("user")
    if user is not None:
        auth.pop("user_id", None)
        auth.pop("password", None)
        auth["username"] = user
        account = replace(account, method=PASSWORD)
    if account.method == PASSWORD:
        name = auth.get("username") or auth.get("user_id") or ""
        if any(key.startswith("password") for key in access.values) or not auth.get("password"):
            auth["password"] = _password(access, name, may_ask=may_ask)
    return replace(account, auth=auth)


def _password(access: Access, user: str, *, may_ask: bool) -> str:
    """Return the password from the first source that has one, or from a prompt.

    Raises:
        CommandError: a file or command of a context fails, or there is no terminal.
    """
    values = access.values
    if "password" in values:
        return values["password"].text
    if "password_file" in values:
        return _first_line(values["password_file"])
    if "password_command" in values and may_ask:
        return _output_of(values["password_command"])
    # Without a terminal, a script would hang at the prompt. The prompt goes to standard error, so
    # that redirected output contains only the result.
    if not may_ask or not sys.stdin.isatty():
        raise CommandError(
            f"no password for {user}; give --password or BERTH_PASSWORD", ExitCode.USAGE
        )
    return click.prompt(f"Password of {user}", hide_input=True, err=True, type=str)


def _first_line(value: Value) -> str:
    path = Path(value.text).expanduser()
    try:
        with path.open(encoding="utf-8") as file:
            line = file.readline(_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        # The message of a decoding error would quote bytes of the password.
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise CommandError(
            f"password_file {path} of {value.origin} cannot be read: {reason}", ExitCode.USAGE
        ) from error
    return _not_empty(line, f"password_file {path} of {value.origin}")


def _output_of(value: Value) -> str:
    """Return the first line that the command of a context prints."""
    what = f"password_command of {value.origin}"
    try:
        # The user wrote the command into a file that no other user can change.
        done = subprocess.run(  # noqa: S603
            shlex.split(value.text),
            stdout=subprocess.PIPE,
            timeout=_COMMAND_TIMEOUT_S,
            check=True,
            text=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        # The error of a command contains its words, which the user knows, but no output.
        raise CommandError(f"{what} failed: {error}", ExitCode.USAGE) from error
    return _not_empty(done.stdout.partition("\n")[0].rstrip("\r"), what)


def _not_empty(password: str, what: str) -> str:
    if not password:
        raise CommandError(f"{what} gives an empty password", ExitCode.USAGE)
    return password


def _tls(access: Access) -> ssl.SSLContext | None:
    if access.text("verify") == "false":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    value = access.values.get("ca_file")
    if value is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(Path(value.text).expanduser()))
    except OSError as error:
        where = "--ca-file" if value.origin in ("--ca-file", "BERTH_CA_FILE") else value.origin
        reason = (
            f"{where} {value.text!r} cannot be used ({error.strerror or error}); name a PEM file"
        )
        raise CommandError(reason, ExitCode.USAGE) from error
