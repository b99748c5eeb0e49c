"""Microversions of the compute API: which one a request asks for, and which one was used."""

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from berth.api.errors import Header, HttpError, send_error

Version = tuple[int, int]

MIN: Version = (2, 1)
MAX: Version = (2, 100)

_FORM = re.compile(r"([1-9][0-9]{0,4})\.(0|[1-9][0-9]{0,4})")
_SCOPE_KEY = "berth.version"


def text_of(version: Version) -> str:
    """Write a version as `2.1`."""
    return f"{version[0]}.{version[1]}"


_TOLD: dict[Version, tuple[Header, ...]] = {
    version: (
        (b"openstack-api-version", f"compute {text_of(version)}".encode()),
        (b"x-openstack-nova-api-version", text_of(version).encode()),
        (b"vary", b"OpenStack-API-Version, X-OpenStack-Nova-API-Version"),
    )
    for version in ((MAX[0], minor) for minor in range(MIN[1], MAX[1] + 1))
}


def version_of(scope: Scope) -> Version:
    """Return the version that was negotiated for a request; the first outside the compute API."""
    version: Version = scope.get(_SCOPE_KEY, MIN)
    return version


class Microversions:
    """ASGI middleware that negotiates the version and tells it in the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its version, or answer 400 or 406."""
        version, error = MIN, None
        try:
            version = negotiate(scope["headers"])
        except HttpError as refused:
            error = refused
        told = _TOLD[version]

        async def send_with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].extend(told)
            await send(message)

        if error is not None:
            await send_error(send_with_version, error)
            return
        scope[_SCOPE_KEY] = version
        await self._app(scope, receive, send_with_version)


def negotiate(headers: list[Header]) -> Version:
    """Find the version that the headers ask for; none means the first.

    Raises:
        HttpError: it is malformed (400) or out of range (406).
    """
    asked = _asked(headers)
    if asked is None:
        return MIN
    if asked == "latest":
        return MAX
    found = _FORM.fullmatch(asked)
    if found is None:
        raise HttpError(
            400,
            f"API Version String {asked[:80]!r} is of invalid format. Must be of format "
            "MajorNum.MinorNum.",
        )
    version = (int(found[1]), int(found[2]))
    if not MIN <= version <= MAX:
        raise HttpError(
            406,
            f"Version {asked} is not supported by the API. Minimum is {text_of(MIN)} and maximum "
            f"is {text_of(MAX)}.",
        )
    return version


def _asked(headers: list[Header]) -> str | None:
    legacy = None
    for name, value in headers:
        if name == b"openstack-api-version":
            for item in value.decode("latin-1").split(","):
                service, _, version = item.strip().partition(" ")
                if service.lower() == "compute":
                    return version.strip()
        elif name == b"x-openstack-nova-api-version":
            legacy = value.decode("latin-1").strip()
    return legacy
