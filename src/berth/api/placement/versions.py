"""Microversions of the Placement API, 1.0 to 1.39, each represented by its minor number."""

from collections.abc import Iterable

from starlette.types import Scope

from berth.api.errors import Header
from berth.api.placement.errors import PlacementError

MINOR_MAX = 39

_NAME = b"openstack-api-version"
_SERVICE = "placement"
_SCOPE_KEY = "berth.placement_minor"
# Minor versions by the exact header value that clients send, so that most requests need no
# parsing.
_USUAL = {f"{_SERVICE} 1.{minor}".encode(): minor for minor in range(MINOR_MAX + 1)} | {
    f"{_SERVICE} latest".encode(): MINOR_MAX
}
# Response headers by minor version, prepared because every response has them.
_TOLD: tuple[tuple[Header, ...], ...] = tuple(
    ((_NAME, f"{_SERVICE} 1.{minor}".encode()), (b"vary", _NAME)) for minor in range(MINOR_MAX + 1)
)


def text_of(minor: int) -> str:
    """Return a minor version in the form `1.39`."""
    return f"1.{minor}"


def set_minor(scope: Scope, minor: int) -> None:
    """Store the negotiated minor version of a request; the response reports it."""
    scope[_SCOPE_KEY] = minor


def minor_of(scope: Scope) -> int | None:
    """Return the negotiated minor version of a request, or None before negotiation."""
    minor: int | None = scope.get(_SCOPE_KEY)
    return minor


def version_headers(scope: Scope) -> tuple[Header, ...]:
    """Return the version headers of a response; none before negotiation."""
    minor: int | None = scope.get(_SCOPE_KEY)
    return () if minor is None else _TOLD[minor]


def negotiate(headers: Iterable[Header]) -> int:
    """Return the minor version that the headers request; 0 if they request none.

    Raises:
        PlacementError: the version is malformed (400) or out of range (406).
    """
    values = [value for name, value in headers if name == _NAME]
    if not values:
        return 0
    if len(values) == 1 and values[0] in _USUAL:
        return _USUAL[values[0]]
    asked = _asked(b",".join(values).decode("latin-1"))
    if asked is None:
        return 0
    if asked == "latest":
        return MINOR_MAX
    try:
        major, minor = (int(part) for part in asked.split(".", 1))
    except ValueError as error:
        text = f"Invalid microversion: invalid version string: {asked[:80]}; {error}"
        raise PlacementError(400, text) from error
    if major != 1 or not 0 <= minor <= MINOR_MAX:
        raise PlacementError(
            406, f"Invalid microversion: Unacceptable version header: {asked[:80]}"
        )
    return minor


def _asked(header: str) -> str | None:
    """Return the version that a header requests for Placement, or None; the last one wins."""
    # One header can name the versions of several services, separated by commas.
    for item in reversed(header.split(",")):
        service, _, version = item.strip().partition(" ")
        if service.lower() == _SERVICE and version.strip():
            return version.strip()
    return None
