"""Handlers for the version documents, by which clients discover the Identity API."""

from berth.api.header_fields import root_url
from berth.api.identity.schemas.versions import (
    IdentityVersion,
    IdentityVersionAnswer,
    IdentityVersionsAnswer,
    IdentityVersionValues,
)
from berth.api.links import Link
from berth.api.routing import Answer, Call
from berth.api.versions import MediaType

PREFIX = "/identity"

_UPDATED = "2022-04-21T00:00:00Z"
_MEDIA_TYPE = "application/vnd.openstack.identity-v3+json"


async def list_identity_versions(call: Call) -> Answer:
    """List the versions of the Identity API."""
    versions = IdentityVersionValues(values=[_version(call)])
    return Answer(IdentityVersionsAnswer(versions=versions))


async def show_identity_version(call: Call) -> Answer:
    """Show the version of the Identity API."""
    return Answer(IdentityVersionAnswer(version=_version(call)))


def _version(call: Call) -> IdentityVersion:
    return IdentityVersion(
        id="v3.14",
        status="stable",
        updated=_UPDATED,
        links=[Link(rel="self", href=f"{root_url(call.scope)}{PREFIX}/v3/")],
        media_types=[MediaType(base="application/json", type=_MEDIA_TYPE)],
    )
