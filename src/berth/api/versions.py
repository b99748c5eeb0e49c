"""Handlers for the version documents that describe the compute API, and for the probes."""

from berth.api.codec import View
from berth.api.header_fields import root_url
from berth.api.links import COMPUTE, Link
from berth.api.microversion import MAX, MIN, text_of
from berth.api.probes import HEALTH, READINESS, Health, Readiness, readiness_of
from berth.api.routing import Answer, ApiOperation, Call, Role

_UPDATED = "2013-07-23T11:33:21Z"
_MEDIA_TYPE = "application/vnd.openstack.compute+json;version=2.1"


class MediaType(View):
    """A media type that the API uses."""

    base: str
    type: str


class VersionView(View, rename={"media_types": "media-types"}):
    """One version of the API."""

    id: str
    status: str
    version: str
    min_version: str
    updated: str
    links: tuple[Link, ...]
    media_types: tuple[MediaType, ...]


class VersionsAnswer(View):
    """The response that lists all versions."""

    versions: tuple[VersionView, ...]


class VersionAnswer(View):
    """The response that shows one version."""

    version: VersionView


def _version(call: Call) -> VersionView:
    return VersionView(
        id="v2.1",
        status="CURRENT",
        version=text_of(MAX),
        min_version=text_of(MIN),
        updated=_UPDATED,
        links=(Link(rel="self", href=f"{root_url(call.scope)}{COMPUTE}/"),),
        media_types=(MediaType(base="application/json", type=_MEDIA_TYPE),),
    )


async def list_versions(call: Call) -> Answer:
    """List the versions of the compute API; there is one."""
    return Answer(VersionsAnswer(versions=(_version(call),)))


async def show_version(call: Call) -> Answer:
    """Show the version of the compute API."""
    return Answer(VersionAnswer(version=_version(call)))


async def show_health(call: Call) -> Answer:  # noqa: ARG001 - every handler takes a call
    """Report that the process responds."""
    return Answer(Health(status="ok"))


async def show_readiness(call: Call) -> Answer:
    """Report whether the process can do its work; a 503 lists the problems that block it."""
    status, body = await readiness_of(call.parts.checks)
    return Answer(body, status=status)


OPERATIONS = (
    ApiOperation("GET", "/", list_versions, role=Role.PUBLIC, answers=VersionsAnswer),
    ApiOperation("GET", "/v2.1", show_version, role=Role.PUBLIC, answers=VersionAnswer),
    ApiOperation("GET", "/v2.1/", show_version, role=Role.PUBLIC, answers=VersionAnswer),
    ApiOperation("GET", HEALTH, show_health, role=Role.PUBLIC, answers=Health),
    ApiOperation("GET", READINESS, show_readiness, role=Role.PUBLIC, answers=Readiness),
)
