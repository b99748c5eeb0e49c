"""HTTP client for a running Berth, which raises the API's errors as command errors."""

import ipaddress
import ssl
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from http import HTTPStatus
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import quote

import click
import httpx

from berth.cli.command import connection_options
from berth.cli.failures import CommandError, ExitCode
from berth.domain.url_redaction import redact_url

Json = dict[str, Any]
"""A JSON object as the API sent it."""

P = ParamSpec("P")
R = TypeVar("R")

# The newest compute microversion whose responses the commands are written for. A fixed version
# keeps the output stable when the service is upgraded.
_VERSION = "compute 2.96"
# The timeout of a request. It is longer than a large read of the ledger may take (60 s by default),
# so that the service can report a slow ledger itself.
_TIMEOUT_S = 90.0
_TEXT_MAX = 300
_DEFAULT_URL = "http://127.0.0.1:8774"

# Exit codes by HTTP status; other statuses are FAILED. Scripts retry on UNREACHABLE, so it includes
# the gateway errors of a proxy in front of a restarting Berth.
_CODES: Mapping[int, ExitCode] = {
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    502: ExitCode.UNREACHABLE,
    503: ExitCode.UNREACHABLE,
    504: ExitCode.UNREACHABLE,
}
# The word in all messages that refuse an operation because of the role of the caller.
_ROLE = "administrator"
_SIGN_IN = "sign in with --user and --password, or BERTH_USER and BERTH_PASSWORD"


class ApiConnection:
    """Sends requests to a running Berth.

    Args:
        http: the HTTP client, configured with address and credentials.
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def get(self, path: str, **params: object) -> Json:
        """Return a document; parameters that are None are omitted.

        Raises:
            CommandError: see `ask`.
        """
        return self.ask("GET", path, params=params)

    def post(self, path: str, body: object) -> Json:
        """Send a POST request and return the response; see `ask` for errors.

        Raises:
            CommandError: see `ask`.
        """
        return self.ask("POST", path, body=body)

    def put(self, path: str, body: object) -> Json:
        """Send a PUT request and return the response; see `ask` for errors.

        Raises:
            CommandError: see `ask`.
        """
        return self.ask("PUT", path, body=body)

    def delete(self, path: str) -> None:
        """Send a DELETE request; see `ask` for errors.

        Raises:
            CommandError: see `ask`.
        """
        self.ask("DELETE", path)

    def pages(self, path: str, key: str, by: str = "id", /, **params: object) -> list[Json]:
        """Return a complete list, fetched page by page; see `ask` for errors.

        Args:
            path: path of the list.
            key: name of the list in the responses.
            by: field of an item that the next page takes as its marker.
            params: query parameters; None values are omitted.

        Raises:
            CommandError: see `ask`.
        """
        found: list[Json] = []
        marker: str | None = None
        while True:
            page = self.get(path, **params, marker=marker)
            here = rows(page, key)
            found += here
            # The service links a next page only if there is one: in `next` for images, and in
            # KEY_links for all other lists. The marker is used instead of the link, so that every
            # request goes to the address in --url.
            if not here or not (page.get(f"{key}_links") or page.get("next")):
                return found
            marker = str(here[-1][by])

    def find(self, path: str) -> Json | None:
        """Return a document, or None if it does not exist; see `ask` for other errors."""
        try:
            return self.get(path)
        except CommandError as error:
            if error.code is ExitCode.NOT_FOUND:
                return None
            raise

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """Send a request and return the JSON object in the response, or {} if it has no body.

        Args:
            method: the HTTP method.
            path: the path under the address of the service.
            params: query parameters; None values are omitted.
            body: the document to send as JSON; None sends no body.
            headers: additional request headers.

        Raises:
            CommandError: the service is unreachable, or answers with an error or with anything
                other than a JSON object.
        """
        given = {key: str(value) for key, value in (params or {}).items() if value is not None}
        with self._reaching():
            answer = self._http.request(
                method, path, params=given or None, json=body, headers=dict(headers or {})
            )
        _check(answer)
        if not answer.content:
            return {}
        try:
            document = cast("object", answer.json())
        except ValueError as error:
            raise CommandError(f"{self._what(answer)} is not JSON; check --url") from error
        if not isinstance(document, dict):
            raise CommandError(f"{self._what(answer)} is not a JSON object; check --url")
        return cast("Json", document)

    @contextmanager
    def stream(self, path: str) -> Generator[Iterator[bytes]]:
        """Yield an iterator over the pieces of a large document.

        Raises:
            CommandError: the service is unreachable or answers with an error.
        """
        with self._reaching(), self._http.stream("GET", path) as answer:
            # A streamed response has no body until it is read, and `_check` needs the message.
            if answer.is_error:
                answer.read()
            _check(answer)
            yield answer.iter_bytes()

    @contextmanager
    def _reaching(self) -> Generator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise CommandError(
                f"{self._address} did not answer within {_TIMEOUT_S:g} s; try again",
                ExitCode.UNREACHABLE,
            ) from error
        except httpx.TransportError as error:
            raise CommandError(
                f"cannot reach {self._address} ({error}); start Berth with `berth up`, or set "
                "another address with --url or BERTH_URL",
                ExitCode.UNREACHABLE,
            ) from error

    @property
    def _address(self) -> str:
        """The address of the service, for errors."""
        return redact_url(str(self._http.base_url))

    def _what(self, answer: httpx.Response) -> str:
        return f"the response from {redact_url(str(answer.request.url))}"


def _check(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    message = _message(answer)
    # Another account helps only if the role of the caller is the reason, not if a quota is.
    needs_role = answer.status_code == HTTPStatus.FORBIDDEN and _ROLE in message.lower()
    if needs_role or answer.status_code == HTTPStatus.UNAUTHORIZED:
        message = f"{message.rstrip('.')}; {_SIGN_IN}"
    request = answer.request
    where = f"{request.method} {request.url.path}: {answer.status_code}"
    raise CommandError(f"{message} ({where})", _CODES.get(answer.status_code, ExitCode.FAILED))


def _message(answer: httpx.Response) -> str:
    """Return the message of an error response.

    Nova's format is `{"itemNotFound": {"message": ...}}`, with a different key for each status.
    Other responses, such as a proxy's, yield the start of their body or, without a body, the
    reason phrase of the status.
    """
    try:
        document = cast("object", answer.json())
    except ValueError:
        return answer.text[:_TEXT_MAX].strip() or answer.reason_phrase
    faults: list[object] = []
    if isinstance(document, dict):
        faults = list(cast("Json", document).values())
    for fault in faults:
        match fault:
            case {"message": str(message)}:
                return message
            case _:
                pass
    return answer.text[:_TEXT_MAX]


def part(document: Json, key: str) -> Json:
    """Return the object under a key of a document, or an empty one."""
    found = cast("object", document.get(key))
    return cast("Json", found) if isinstance(found, dict) else {}


def rows(document: Json, key: str) -> list[Json]:
    """Return the list of objects under a key of a document, or an empty one."""
    found = cast("object", document.get(key))
    return cast("list[Json]", found) if isinstance(found, list) else []


def texts(document: Json, key: str) -> list[str]:
    """Return the sorted list of names under a key of a document, or an empty one."""
    found = cast("object", document.get(key))
    return sorted(str(one) for one in cast("list[object]", found or []))


def segment(text: str) -> str:
    """Return a name quoted as one segment of a path."""
    return quote(text, safe="")


def connected(
    command: Callable[Concatenate[ApiConnection, P], R],
) -> Callable[P, R]:
    """Add the connection options to a command and pass it a connection as its first argument.

    Raises:
        CommandError: the URL is invalid, or no password is given.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        url, user, password, token = (
            cast("str | None", kwargs.pop(name)) for name in ("url", "user", "password", "token")
        )
        context = _tls_context(cast("str | None", kwargs.pop("ca_file")))
        with _client(url or _DEFAULT_URL, user, password, token, context) as http:
            return command(ApiConnection(http), *args, **kwargs)

    return connection_options(cast("Callable[..., R]", run))


def _tls_context(ca_file: str | None) -> ssl.SSLContext | None:
    """Return the TLS context with the certificates of a file, or None to use the system's."""
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = (
            f"--ca-file {ca_file!r} cannot be used ({error.strerror or error}); name a PEM file"
        )
        raise CommandError(reason, ExitCode.USAGE) from error


def _client(
    url: str,
    user: str | None,
    password: str | None,
    token: str | None,
    context: ssl.SSLContext | None,
) -> httpx.Client:
    parsed = check_url(url)
    headers = {"OpenStack-API-Version": _VERSION, "Accept": "application/json"}
    if token:
        headers["X-Auth-Token"] = token
    auth = None
    if user:
        auth = httpx.BasicAuth(user, _ask_password(user) if password is None else password)
    return httpx.Client(
        base_url=url,
        auth=auth,
        headers=headers,
        timeout=_TIMEOUT_S,
        verify=True if context is None else context,
        # A proxy from the environment cannot reach this machine's loopback address.
        trust_env=not _is_loopback(parsed.host),
    )


def check_url(url: str) -> httpx.URL:
    """Return the parsed URL of `--url`.

    Raises:
        CommandError: the URL is not an HTTP URL with a host. The error shows no password.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        # The original error is dropped, because it may quote a part of the password as the port.
        raise CommandError(
            f"--url {redact_url(url)[:80]!r} must be an HTTP URL with a host, such as "
            "http://127.0.0.1:8774",
            ExitCode.USAGE,
        )
    return parsed


def _ask_password(user: str) -> str:
    # Without a terminal, a script would hang at the prompt. The prompt goes to standard error, so
    # that redirected output contains only the result.
    if not sys.stdin.isatty():
        raise CommandError(
            f"no password for {user}; give --password or BERTH_PASSWORD", ExitCode.USAGE
        )
    return click.prompt(f"Password of {user}", hide_input=True, err=True, type=str)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
