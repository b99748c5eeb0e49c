"""Response bodies of the Identity API's version documents."""

from berth.api.codec import View
from berth.api.links import Link
from berth.api.versions import MediaType


class IdentityVersion(View, rename={"media_types": "media-types"}):
    """A version of the Identity API."""

    id: str
    status: str
    updated: str
    links: list[Link]
    media_types: list[MediaType]


class IdentityVersionAnswer(View):
    """The response with one version of the Identity API."""

    version: IdentityVersion


class IdentityVersionValues(View):
    """The list of versions inside the response with all versions."""

    values: list[IdentityVersion]


class IdentityVersionsAnswer(View):
    """The response with all versions of the Identity API."""

    versions: IdentityVersionValues
