"""Negotiation of the compute API's microversions."""

import re

from starlette.types import Scope

from berth.api.errors import Header, HttpError

Version = tuple[int, int]

MIN: Version = (2, 1)
MAX: Version = (2, 104)

_FORM = re.compile(r"([1-9][0-9]{0,4})\.(0|[1-9][0-9]{0,4})")
_SCOPE_KEY = "berth.version"


def text_of(version: Version) -> str:
    """Return a version in the form `2.1`."""
    return f"{version[0]}.{version[1]}"


_VERSIONS = tuple((MAX[0], minor) for minor in range(MIN[1], MAX[1] + 1))
# The header values that OpenStack's clients usually send; they need no parsing.
_USUAL = {f"compute {text_of(version)}".encode(): version for version in _VERSIONS}
_TOLD: dict[Version, tuple[Header, ...]] = {
    version: (
        (b"openstack-api-version", f"compute {text_of(version)}".encode()),
        (b"x-openstack-nova-api-version", text_of(version).encode()),
        (b"vary", b"OpenStack-API-Version, X-OpenStack-Nova-API-Version"),
    )
    for version in _VERSIONS
}


def version_of(scope: Scope) -> Version:
    """Return the negotiated version of a request; outside the compute API, the first version."""
    version: Version = scope.get(_SCOPE_KEY, MIN)
    return version


def set_version(scope: Scope, version: Version) -> None:
    """Record the negotiated version of a request; its response then names the version."""
    scope[_SCOPE_KEY] = version


def version_headers(scope: Scope) -> tuple[Header, ...]:
    """Return the version headers of a response; an empty tuple outside the compute API."""
    version: Version | None = scope.get(_SCOPE_KEY)
    return () if version is None else _TOLD[version]


def negotiate(headers: list[Header]) -> Version:
    """Return the version that the headers request, or the first version if they name none.

    Raises:
        HttpError: the version is malformed (400) or out of range (406).
    """
    requested = _requested(headers)
    if isinstance(requested, tuple):
        return requested
    if requested is None:
        return MIN
    if requested == "latest":
        return MAX
    found = _FORM.fullmatch(requested)
    if found is None:
        raise HttpError(
            400,
            f"API Version String {requested[:80]!r} is of invalid format. Must be of "
            "format MajorNum.MinorNum.",
        )
    version = (int(found[1]), int(found[2]))
    if not MIN <= version <= MAX:
        raise HttpError(
            406,
            f"Version {requested} is not supported by the API. Minimum is {text_of(MIN)} and "
            f"maximum is {text_of(MAX)}.",
        )
    return version


def _requested(headers: list[Header]) -> Version | str | None:
    # As in Nova, X-OpenStack-Nova-API-Version is read only if the newer header names no version of
    # the compute service.
    legacy = None
    for name, value in headers:
        if name == b"openstack-api-version":
            usual = _USUAL.get(value)
            if usual is not None:
                return usual
            for item in value.decode("latin-1").split(","):
                service, _, version = item.strip().partition(" ")
                if service.lower() == "compute":
                    return version.strip()
        elif name == b"x-openstack-nova-api-version":
            legacy = value.decode("latin-1").strip()
    return legacy
