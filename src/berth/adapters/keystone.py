"""Validates tokens at an external Keystone, with keystoneauth1 in a pool of threads."""

import asyncio
import io
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Annotated, Final, Literal

import msgspec
import requests
import urllib3
from keystoneauth1 import exceptions
from keystoneauth1.identity import v3
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.session import Session
from msgspec import Meta
from requests.adapters import HTTPAdapter

from berth.domain.errors import InvalidInputError
from berth.ports.token_validation import (
    TokenServiceBusyError,
    TokenServiceDownError,
    TokenServiceError,
    ValidToken,
)

_BODY_BYTES_MAX: Final = 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_REASON_MAX: Final = 300
# Seconds. Keystone can lock an account after repeated failures, so refused credentials are not
# retried at once.
_REFUSED_PAUSE_S: Final = 30.0
_OVERLOADED: Final = frozenset({429, 502, 503, 504})
# Statuses that concern the token alone. Keystone answers 404 for an invalid token; a web server in
# front of it rejects oversized or malformed tokens, which clients choose, with the others.
_REJECTED: Final = frozenset({400, 404, 413, 414, 431})

_Id = Annotated[str, Meta(min_length=1, max_length=255)]


class _Domain(msgspec.Struct):
    id: _Id
    name: _Id


class _User(msgspec.Struct):
    id: _Id


class _Project(msgspec.Struct):
    id: _Id
    domain: _Domain


class _Role(msgspec.Struct):
    name: _Id


class _Token(msgspec.Struct):
    user: _User
    expires_at: datetime
    roles: Annotated[list[_Role], Meta(max_length=1_000)] = []
    project: _Project | None = None
    system: dict[str, bool] | None = None


class _Body(msgspec.Struct):
    token: _Token


_DECODER: Final = msgspec.json.Decoder(_Body)


@dataclass(frozen=True, slots=True)
class KeystoneAccess:
    """The address of a Keystone, and the account with which Berth validates tokens there.

    Attributes:
        auth_url: base URL of Keystone, with or without `/v3` at its end.
        read_secret: returns the password or the secret; it is called before each login.
        username: name of the account; unused with an application credential.
        user_domain_name: name of the account's domain.
        project_name: name of the project in which the account has its role.
        project_domain_name: name of that project's domain.
        application_credential_id: id of an application credential; None logs in by password.
        ca_file: CA certificates that verify Keystone; None uses the system's.
        timeout_s: maximum duration of a validation in seconds.
        connections_max: maximum number of simultaneous validations.
    """

    auth_url: str
    read_secret: Callable[[], str]
    username: str = ""
    user_domain_name: str = "Default"
    project_name: str = "service"
    project_domain_name: str = "Default"
    application_credential_id: str | None = None
    ca_file: Path | None = None
    timeout_s: float = 5.0
    connections_max: int = 4

    @property
    def v3_url(self) -> str:
        """The URL of version 3 of the Identity API, without a slash at its end."""
        url = self.auth_url.rstrip("/")
        return url if url.endswith("/v3") else f"{url}/v3"


class KeystoneTokens:
    """Validates tokens at Keystone; see the port `TokenValidator`.

    keystoneauth1 blocks, so it runs in a pool of threads of this object. A validation fails when it
    takes longer than `access.timeout_s`, including its wait for a thread; its thread stays occupied
    until the connection ends. The failure says that Keystone is down only if the validation had a
    thread for at least half of that time; otherwise other validations delayed it.

    Args:
        access: the address of Keystone and Berth's account.

    Raises:
        InvalidInputError: `access.ca_file` cannot be read or contains no certificates.
    """

    def __init__(self, access: KeystoneAccess) -> None:
        self._access = access
        self._certificates: str | Literal[True] = _certificates_of(access.ca_file)
        self._url = f"{access.v3_url}/auth/tokens?nocatalog"
        self._threads = ThreadPoolExecutor(access.connections_max, thread_name_prefix="keystone")
        self._lock = Lock()
        self._session: Session | None = None

    async def validate(self, token: str, *, allow_expired: bool = False) -> ValidToken | None:
        """See `TokenValidator.validate`."""
        loop = asyncio.get_running_loop()
        timeout_s = self._access.timeout_s
        began_s: list[float] = []

        def validate() -> ValidToken | None:
            began_s.append(time.monotonic())
            return self._validate(token, allow_expired=allow_expired)

        try:
            # A validation that still waits for a thread is cancelled; a running one cannot be.
            return await asyncio.wait_for(loop.run_in_executor(self._threads, validate), timeout_s)
        except TimeoutError as error:
            if not began_s or time.monotonic() - began_s[0] < timeout_s / 2:
                raise TokenServiceBusyError(
                    f"a validation waited {timeout_s:g} s for others; consider a higher "
                    "keystone.connections_max"
                ) from error
            raise TokenServiceDownError(
                f"Keystone gave no answer within {timeout_s:g} s; check keystone.auth_url"
            ) from error

    def close(self) -> None:
        """Let the threads end after their current validations."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _validate(self, token: str, *, allow_expired: bool) -> ValidToken | None:
        try:
            session = self._current_session()
        except InvalidInputError as error:
            raise TokenServiceDownError(f"cannot log in at Keystone: {error}") from error
        ask = partial(
            session.get,
            f"{self._url}&allow_expired=1" if allow_expired else self._url,
            headers={"X-Subject-Token": token, "Accept": "application/json"},
            raise_exc=False,
            redirect=False,  # a redirect would send the tokens in the headers to another server
            log=False,
        )
        try:
            try:
                response = ask()
            except exceptions.ConnectTimeout:
                raise
            except exceptions.ConnectFailure:
                # Keystone may have closed an idle connection just when this call reused it.
                response = ask()
        except exceptions.Unauthorized as error:
            self._forget(session)
            raise TokenServiceDownError(
                "Keystone refuses the credentials of Berth's account; check the account and the "
                "secret in the section keystone of the settings",
                _REFUSED_PAUSE_S,
            ) from error
        except exceptions.UnknownConnectionError as error:
            if isinstance(error.original, _ResponseTooLargeError):
                raise TokenServiceError(str(error.original)) from error
            raise _down(error) from error
        except (exceptions.ClientException, OSError) as error:
            raise _down(error) from error
        return self._read(response, session)

    def _read(self, response: requests.Response, session: Session) -> ValidToken | None:
        status = response.status_code
        if status in _REJECTED:
            return None
        if status == requests.codes.ok:
            return _valid_token(response.content)
        if status == requests.codes.unauthorized:
            # keystoneauth1 has already logged in again and repeated the request.
            self._forget(session)
            raise TokenServiceDownError(
                "Keystone issues no token for Berth's account; check that the account is enabled",
                _REFUSED_PAUSE_S,
            )
        if status == requests.codes.forbidden:
            self._forget(session)
            raise TokenServiceDownError(
                "Keystone does not let Berth's account validate tokens; give the account the role "
                "service in its project",
                _REFUSED_PAUSE_S,
            )
        if status in _OVERLOADED:
            raise TokenServiceDownError(f"Keystone answers with the status {status}")
        raise TokenServiceError(
            f"Keystone answers the validation of a token with the status {status}; see its log"
        )

    def _current_session(self) -> Session:
        with self._lock:
            if self._session is None:
                self._session = _session_of(self._access, self._certificates)
            return self._session

    def _forget(self, session: Session) -> None:
        """Drop a session, so that the next validation reads the secret again and logs in."""
        with self._lock:
            if self._session is session:
                self._session = None


def _valid_token(content: bytes) -> ValidToken:
    try:
        token = _DECODER.decode(content).token
    except msgspec.MsgspecError as error:
        # msgspec's message names the field and the types, and quotes none of the content.
        raise TokenServiceError(
            f"Keystone sent an invalid description of a token ({error}); check that "
            "keystone.auth_url leads to a Keystone"
        ) from error
    if token.expires_at.tzinfo is None:
        raise TokenServiceError("Keystone sent the expiry of a token without a time zone")
    project = token.project
    return ValidToken(
        user_id=token.user.id,
        expires_at_s=token.expires_at.timestamp(),
        roles=frozenset(role.name.lower() for role in token.roles),
        project_id="" if project is None else project.id,
        project_domain=(
            frozenset() if project is None else frozenset({project.domain.id, project.domain.name})
        ),
        is_system=bool(token.system),
    )


def _down(error: Exception) -> TokenServiceDownError:
    reason = f"{error}"[:_REASON_MAX]
    return TokenServiceDownError(f"cannot reach Keystone ({reason}); check keystone.auth_url")


def _session_of(access: KeystoneAccess, certificates: "str | Literal[True]") -> Session:
    transport = requests.Session()
    # Proxies and passwords in the environment of the process are for other programs.
    transport.trust_env = False
    for scheme in ("http://", "https://"):
        transport.mount(
            scheme,
            _BoundedAdapter(access.timeout_s, pool_maxsize=access.connections_max),
        )
    return Session(
        auth=_plugin_of(access),
        session=transport,
        verify=certificates,
        timeout=access.timeout_s,
        redirect=False,
        user_agent="berth",
    )


def _plugin_of(access: KeystoneAccess) -> BaseAuthPlugin:
    secret = access.read_secret()
    if access.application_credential_id is not None:
        return v3.ApplicationCredential(
            auth_url=access.v3_url,
            application_credential_id=access.application_credential_id,
            application_credential_secret=secret,
            include_catalog=False,
        )
    return v3.Password(
        auth_url=access.v3_url,
        username=access.username,
        password=secret,
        user_domain_name=access.user_domain_name,
        project_name=access.project_name,
        project_domain_name=access.project_domain_name,
        include_catalog=False,
    )


def _certificates_of(ca_file: Path | None) -> "str | Literal[True]":
    if ca_file is not None:
        # requests would not report a missing or invalid file before the first request.
        try:
            ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            reason = f"cannot read certificates from {ca_file} ({error}); check the file"
            raise InvalidInputError("keystone.ca_file", reason) from error
        return str(ca_file)
    # By default, requests would use the certificates of certifi instead of the system's.
    system = ssl.get_default_verify_paths()
    return system.cafile or system.capath or True


class _ResponseTooLargeError(requests.exceptions.RequestException):
    """A response exceeds the limit."""


class _BoundedAdapter(HTTPAdapter):
    """Limits the size of each response and the time to read it.

    requests limits only the time between two packets, and not the size.

    Args:
        timeout_s: maximum time in seconds for the body of a response.
        pool_maxsize: number of connections to keep open.
    """

    def __init__(self, timeout_s: float, *, pool_maxsize: int) -> None:
        super().__init__(pool_maxsize=pool_maxsize)
        self._timeout_s = timeout_s

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 - the signature is that of HTTPAdapter
        timeout: float | tuple[float | None, float | None] | None = None,
        verify: bool | str = True,  # noqa: FBT001, FBT002 - as above
        cert: str | tuple[str, str] | None = None,
        proxies: dict[str, str] | None = None,
    ) -> requests.Response:
        """Send a request, read the whole response into memory, and return it.

        Raises:
            RequestException: the response is too large or takes too long, or the connection fails.
        """
        # A compressed body of a few kilobytes could expand to gigabytes.
        request.headers["Accept-Encoding"] = "identity"
        response = super().send(
            request, stream=True, timeout=timeout, verify=verify, cert=cert, proxies=proxies
        )
        try:
            response.raw = io.BytesIO(self._body_of(response))
        except urllib3.exceptions.TimeoutError as error:
            raise requests.exceptions.ReadTimeout(error, request=request) from error
        except urllib3.exceptions.HTTPError as error:
            raise requests.exceptions.ConnectionError(error, request=request) from error
        return response

    def _body_of(self, response: requests.Response) -> bytes:
        deadline_s = time.monotonic() + self._timeout_s
        raw = response.raw
        body = bytearray()
        while chunk := raw.read1(_CHUNK_BYTES, decode_content=False):
            body += chunk
            if len(body) > _BODY_BYTES_MAX:
                raw.close()
                raise _ResponseTooLargeError(
                    f"Keystone sent a response of more than {_BODY_BYTES_MAX:,} bytes"
                )
            if time.monotonic() > deadline_s:
                raw.close()
                raise requests.exceptions.ReadTimeout(
                    f"the response took longer than {self._timeout_s:g} s"
                )
        raw.release_conn()
        return bytes(body)
