"""The connection to a running Berth, whose errors are command errors."""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import quote

import httpx

from berth.cli.access.access import access_of
from berth.cli.access.login import log_in, opened
from berth.cli.command import CONNECTION_OPTIONS, connection_options
from berth.cli.failures import CommandError, ExitCode
from berth.client import (
    AuthError,
    Client,
    ClientError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
    UnreadableAnswerError,
)

Json = dict[str, Any]
"""A JSON object as the API sent it."""

P = ParamSpec("P")
R = TypeVar("R")


# Exit codes by kind of error; others are FAILED. Scripts retry on UNREACHABLE, so it includes the
# gateway errors of a proxy in front of a restarting Berth.
_CODES: Mapping[type[ClientError], ExitCode] = {
    NotFoundError: ExitCode.NOT_FOUND,
    ConflictError: ExitCode.CONFLICT,
    UnavailableError: ExitCode.UNREACHABLE,
}
# The word in all messages that refuse an operation because of the role of the caller.
_ROLE = "administrator"
_TRY_AGAIN = "try again"
_START = "start Berth with `berth up`, or set another address with --url, BERTH_URL or a context"
_SIGN_IN = (
    "sign in with --user and --password, BERTH_USER and BERTH_PASSWORD, or a context "
    "(`berth context add`)"
)


class ApiConnection:
    """Sends requests to a running Berth.

    Args:
        berth: the client, configured with address and credentials.

    Attributes:
        berth: the client, for Berth's own API. Its errors are `ClientError`; `connected` translates
            those that a command does not handle.
    """

    def __init__(self, berth: Client) -> None:
        self.berth = berth

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
        with command_errors():
            return self.berth.request(method, path, query=params or {}, body=body, headers=headers)


@contextmanager
def command_errors() -> Generator[None]:
    """Translate the errors of the client library.

    Raises:
        CommandError: a request in the block failed; the error says what to do.
    """
    try:
        yield
    except ClientError as error:
        raise _translated(error) from error


def _translated(error: ClientError) -> CommandError:
    code = _CODES.get(type(error), ExitCode.FAILED)
    message = error.message
    if isinstance(error, UnreadableAnswerError):
        message = f"{message}; check --url"
    elif isinstance(error, UnavailableError) and error.status is None:
        is_late = isinstance(error.__cause__, httpx.TimeoutException)
        return CommandError(f"{message}; {_TRY_AGAIN if is_late else _START}", code)
    # Another account helps only if the role of the caller is the reason, not if a quota is.
    needs_role = isinstance(error, ForbiddenError) and _ROLE in message.lower()
    if needs_role or isinstance(error, AuthError):
        message = f"{message.rstrip('.')}; {_SIGN_IN}"
    return CommandError(f"{message} ({error.where})" if error.where else message, code)


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
        CommandError: the URL is invalid, a context or cloud cannot be used, no password is given,
            or the sign-in fails.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        login = log_in(access_of(popped_options(kwargs), os.environ))
        with opened(login) as berth, command_errors():
            return command(ApiConnection(berth), *args, **kwargs)

    return connection_options(cast("Callable[..., R]", run))


def popped_options(values: dict[str, Any]) -> dict[str, str | None]:
    """Remove the values of `connection_options` from the parameters of a command; return them."""
    names = [name[2:].replace("-", "_") for name in CONNECTION_OPTIONS]
    return {name: values.pop(name) for name in names}
