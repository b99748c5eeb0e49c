"""Request and response bodies for flavors."""

from typing import Annotated, cast

from berth.api.codec import UNSET, Meta, Model, Name, UnsetType, View
from berth.api.links import Link
from berth.api.values import Flag, Limit, Text, Whole

# Nova's pattern: an id may contain spaces, but must not begin with one.
FlavorId = Annotated[
    str, Meta(min_length=1, max_length=255, pattern="^[a-zA-Z0-9._-][a-zA-Z0-9. _-]*$")
]
SpecKey = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[a-zA-Z0-9_:. -]+$")]
SpecValue = Annotated[str, Meta(max_length=255)] | int | float
Specs = Annotated[dict[SpecKey, SpecValue], Meta(max_length=128)]


class NewFlavor(
    Model,
    rename={"ephemeral": "OS-FLV-EXT-DATA:ephemeral", "is_public": "os-flavor-access:is_public"},
):
    """The flavor to create; Berth generates a uuid if the id is missing or null."""

    name: Name
    ram: Whole
    vcpus: Whole
    disk: Whole
    id: FlavorId | Annotated[int, Meta(ge=0, le=2**53 - 1)] | None = None
    ephemeral: Whole = 0
    swap: Whole = 0
    rxtx_factor: (
        Annotated[float, Meta(gt=0, le=1e38)] | Annotated[str, Meta(max_length=32)] | UnsetType
    ) = UNSET
    is_public: Flag = True
    description: Text | UnsetType | None = UNSET


class NewFlavorBody(Model):
    """Body of POST /flavors."""

    flavor: NewFlavor


class FlavorChange(Model):
    """The new description of a flavor; null removes it. No other field can be updated."""

    description: Text | None


class FlavorChangeBody(Model):
    """Body of PUT /flavors/{flavor_id}."""

    flavor: FlavorChange


class Tenant(Model):
    """The project that gets or loses access to a flavor."""

    tenant: Annotated[str, Meta(min_length=1, max_length=255)]


class FlavorAction(Model, rename={"add": "addTenantAccess", "remove": "removeTenantAccess"}):
    """Body of POST /flavors/{flavor_id}/action, with one of the two actions."""

    add: Tenant | UnsetType = UNSET
    remove: Tenant | UnsetType = UNSET


class FlavorAccessLine(View):
    """A project that may use a private flavor."""

    flavor_id: str
    tenant_id: str


class FlavorAccessAnswer(View):
    """The response with all projects that may use a private flavor."""

    flavor_access: list[FlavorAccessLine]


class FlavorsQuery(Model, rename={"min_ram": "minRam", "min_disk": "minDisk"}):
    """Filters, order and page of a flavor list."""

    limit: Limit | None = None
    marker: str | None = None
    is_public: str | None = None
    name: str | None = None
    min_ram: Limit | None = None
    min_disk: Limit | None = None
    sort_key: str = "flavorid"
    sort_dir: str = "asc"


class FlavorLine(View):
    """A flavor in a list without details."""

    id: str
    name: str
    links: tuple[Link, ...]
    description: str | UnsetType | None = UNSET


class FlavorView(
    View,
    rename={
        "ephemeral": "OS-FLV-EXT-DATA:ephemeral",
        "disabled": "OS-FLV-DISABLED:disabled",
        "is_public": "os-flavor-access:is_public",
    },
):
    """A flavor with all fields."""

    id: str
    name: str
    ram: int
    disk: int
    vcpus: int
    # As in Nova, the value for a flavor without swap is an empty string before 2.75, then 0.
    swap: int | str
    ephemeral: int
    is_public: bool
    links: tuple[Link, ...]
    disabled: bool | UnsetType = UNSET
    rxtx_factor: float | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    extra_specs: dict[str, str] | UnsetType = UNSET


class FlavorAnswer(View):
    """The response with one flavor."""

    flavor: FlavorView


class FlavorLinesAnswer(View):
    """The response with a page of flavors without details."""

    flavors: list[FlavorLine]
    flavors_links: tuple[Link, ...] | UnsetType = UNSET


class FlavorsAnswer(View):
    """The response with a page of flavors with all fields."""

    flavors: list[FlavorView]
    flavors_links: tuple[Link, ...] | UnsetType = UNSET


class SpecsBody(Model):
    """The extra specs to create or overwrite."""

    extra_specs: Specs


class SpecsAnswer(View):
    """The response with extra specs of a flavor."""

    extra_specs: dict[str, str]


# Type checkers see a plain class because of the cast; at run time the length is limited to one key.
OneSpec = cast(
    "type[dict[str, str | int | float]]",
    Annotated[dict[SpecKey, SpecValue], Meta(min_length=1, max_length=1)],
)
"""Body of PUT /flavors/{flavor_id}/os-extra_specs/{key}: one extra spec under its key."""
