"""Response bodies of the Identity API's version documents."""

from berth.api.codec import View
from berth.api.links import Link
from berth.api.versions import MediaType


class IdentityVersion(View, rename={"media_types": "media-types"}):
    """A version of the API."""

    id: str
    status: str
    updated: str
    links: list[Link]
    media_types: list[MediaType]


class IdentityVersionAnswer(View):
    """The version document of one version."""

    version: IdentityVersion


class IdentityVersionValues(View):
    """The list of versions inside the version document."""

    values: list[IdentityVersion]


class IdentityVersionsAnswer(View):
    """The version document of all versions."""

    versions: IdentityVersionValues
