"""The versions of the Identity API."""

from berth.api.codec import View
from berth.api.links import Link
from berth.api.versions import MediaType


class IdentityVersion(View, rename={"media_types": "media-types"}):
    """One version."""

    id: str
    status: str
    updated: str
    links: list[Link]
    media_types: list[MediaType]


class IdentityVersionAnswer(View):
    """The version that this is."""

    version: IdentityVersion


class IdentityVersionValues(View):
    """All versions."""

    values: list[IdentityVersion]


class IdentityVersionsAnswer(View):
    """All versions."""

    versions: IdentityVersionValues
