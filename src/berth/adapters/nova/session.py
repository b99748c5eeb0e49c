"""Authenticated GET requests to Nova and Placement; the session sends them no other requests."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar

import httpx
import msgspec

from berth.adapters.nova.credentials import Credentials
from berth.domain.errors import AccessDeniedError, InvalidInputError, UnavailableError
from berth.domain.url_redaction import redact_url

T = TypeVar("T")

# Listing the servers of a large cloud may take Nova a minute.
_TIMEOUT_S: Final = 120.0
# Placement has no bulk reads, so most requests concern one provider each.
_CONNECTIONS_MAX: Final = 8
_TRIES: Final = 4
_PAUSE_S: Final = 1.0
_RETRIED: Final = frozenset({429, 500, 502, 503, 504})
_TEXT_MAX: Final = 300
_TYPES: Final[Mapping[str, str]] = {"compute": "compute_url", "placement": "placement_url"}


class OpenStackSession:
    """Sends GET requests to the services of an OpenStack cloud.

    Args:
        credentials: the account, and the addresses of the services.
        transport: replaces the network in tests; None uses the network.
        pause_s: seconds before the first retry of a failed request; each further pause doubles.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._credentials = credentials
        self._pause_s = pause_s
        verify: str | bool = credentials.ca_file or True
        basic = None
        if credentials.auth_type == "http_basic":
            basic = httpx.BasicAuth(credentials.username, credentials.password)
        self._http = httpx.AsyncClient(
            timeout=_TIMEOUT_S,
            auth=basic,
            transport=transport,
            verify=False if credentials.is_insecure else verify,
            limits=httpx.Limits(max_connections=_CONNECTIONS_MAX),
        )
        self._turns = asyncio.Semaphore(_CONNECTIONS_MAX)
        self._login = asyncio.Lock()
        self._token = ""
        self._urls: dict[str, str] = {}

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def get(
        self,
        service: str,
        path: str,
        kind: type[T],
        *,
        version: str,
        params: Mapping[str, str | int] | None = None,
    ) -> T:
        """Return a document of a service.

        Args:
            service: `compute` or `placement`.
            path: the path below the service's URL, with a leading slash.
            kind: the type of the document.
            version: the microversion.
            params: the query.

        Raises:
            UnavailableError: the service does not answer, or answers with an error of its own.
            AccessDeniedError: the credentials are refused, or are not those of an administrator.
            InvalidInputError: the answer is not a document of the type, or the request was refused.
        """
        answer = await self._answer(service, path, version, params or {})
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.DecodeError as error:
            where = f"{service} {path}"
            reason = f"the answer cannot be understood: {error}; is this {service}'s URL?"
            raise InvalidInputError(where, reason) from error

    async def _answer(
        self, service: str, path: str, version: str, params: Mapping[str, str | int]
    ) -> httpx.Response:
        await self._log_in("")
        url = self._urls[service].rstrip("/") + path
        headers = {"OpenStack-API-Version": f"{service} {version}"}
        renewed, failure = False, ""
        for attempt in range(_TRIES):
            token = self._token
            try:
                async with self._turns:
                    answer = await self._http.get(
                        url, params=params, headers=headers | self._auth_headers()
                    )
            except httpx.HTTPError as error:
                failure = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code == HTTPStatus.UNAUTHORIZED and not renewed:
                    # A token may expire during a long import.
                    renewed = True
                    await self._log_in(token)
                    continue
                if answer.status_code not in _RETRIED:
                    return _checked(answer, service, path)
                failure = f"HTTP {answer.status_code}: {answer.text[:_TEXT_MAX]}"
            if attempt < _TRIES - 1:
                await asyncio.sleep(self._pause_s * 2**attempt)
        raise UnavailableError(
            f"{service} at {redact_url(url)} does not answer ({failure}); check the service and "
            "its URL, then run the command again"
        )

    def _auth_headers(self) -> dict[str, str]:
        return {"X-Auth-Token": self._token} if self._token else {}

    async def _log_in(self, used: str) -> None:
        """Get a token and the URLs unless another task has done so since `used` was sent."""
        async with self._login:
            if self._urls and self._token != used:
                return
            own = self._credentials
            if own.uses_keystone:
                self._token, found = await self._keystone_token()
            else:
                # Both services read user and project from the token if they run without Keystone.
                found = {}
                name = own.username or "admin"
                self._token = "" if own.auth_type == "http_basic" else f"{name}:{name}"
            given = {"compute": own.compute_url, "placement": own.placement_url}
            self._urls = {service: url or found.get(service, "") for service, url in given.items()}
            for service, url in self._urls.items():
                if not url:
                    option = f"--{service}-url"
                    reason = f"the catalog of Keystone has no {own.interface} endpoint of {service}"
                    raise InvalidInputError(option, f"{reason}; give its URL")

    async def _keystone_token(self) -> tuple[str, dict[str, str]]:
        """Return a token and the URLs of the services in its catalog."""
        own = self._credentials
        url = own.auth_url.rstrip("/")
        url = (url if url.endswith("/v3") else f"{url}/v3") + "/auth/tokens"
        try:
            answer = await self._http.post(url, json={"auth": auth_body(own)})
        except httpx.HTTPError as error:
            raise UnavailableError(
                f"Keystone at {redact_url(url)} does not answer ({type(error).__name__}: {error}); "
                "check OS_AUTH_URL"
            ) from error
        if answer.status_code != HTTPStatus.CREATED:
            raise AccessDeniedError(
                f"Keystone refuses the credentials (HTTP {answer.status_code}: "
                f"{answer.text[:_TEXT_MAX]}); check the OS_* variables"
            )
        try:
            body = msgspec.json.decode(answer.content, type=_Body)
        except msgspec.DecodeError as error:
            raise InvalidInputError("OS_AUTH_URL", f"is not Keystone's: {error}") from error
        urls = {
            one.type: endpoint.url
            for one in body.token.catalog
            if one.type in _TYPES
            for endpoint in one.endpoints
            if endpoint.interface == own.interface and own.region in {"", endpoint.region}
        }
        return answer.headers["X-Subject-Token"], urls


class _Endpoint(msgspec.Struct):
    interface: str
    url: str
    region: str | None = None


class _Service(msgspec.Struct):
    type: str
    endpoints: list[_Endpoint] = []


class _Token(msgspec.Struct):
    catalog: list[_Service] = []


class _Body(msgspec.Struct):
    token: _Token


def auth_body(own: Credentials) -> dict[str, Any]:
    """Return the `auth` part of a request for a token."""
    scope: dict[str, Any] = {}
    if own.project_id:
        scope = {"scope": {"project": {"id": own.project_id}}}
    elif own.project_name:
        domain = {"name": own.project_domain}
        scope = {"scope": {"project": {"name": own.project_name, "domain": domain}}}
    match own.auth_type:
        case "token":
            return {"identity": {"methods": ["token"], "token": {"id": own.token}}} | scope
        case "application_credential":
            # Such a credential is bound to its project, so a scope would be refused.
            credential = {
                "id": own.application_credential_id,
                "secret": own.application_credential_secret,
            }
            method = "application_credential"
            return {"identity": {"methods": [method], method: credential}}
        case _:
            user = {
                "name": own.username,
                "password": own.password,
                "domain": {"name": own.user_domain},
            }
            return {"identity": {"methods": ["password"], "password": {"user": user}}} | scope


def _checked(answer: httpx.Response, service: str, path: str) -> httpx.Response:
    """Return an answer if it is a success.

    Raises:
        AccessDeniedError: the credentials are refused.
        InvalidInputError: the request is refused for another reason.
    """
    if answer.is_success:
        return answer
    what = f"GET {path} of {service}: HTTP {answer.status_code}"
    text = answer.text[:_TEXT_MAX]
    if answer.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise AccessDeniedError(
            f"{what} ({text}); the import needs an account that is administrator of {service}"
        )
    raise InvalidInputError(f"{service} {path}", f"{what}: {text}")
