"""Bodies of requests and responses about flavors."""

from typing import Annotated, cast

from berth.api.codec import UNSET, Meta, Model, Name, UnsetType, View
from berth.api.links import Link
from berth.api.values import Flag, Limit, Text, Whole

# Nova's patterns: blanks are allowed inside an id, but not at its start.
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
    """The flavor to create; without an id it gets a new uuid."""

    name: Name
    ram: Whole
    vcpus: Whole
    disk: Whole
    id: FlavorId | Annotated[int, Meta(ge=0, le=2**53 - 1)] | None = None
    ephemeral: Whole = 0
    swap: Whole = 0
    rxtx_factor: Annotated[float, Meta(gt=0, le=1e38)] | Annotated[str, Meta(max_length=32)] = 1.0
    is_public: Flag = True
    description: Text | UnsetType | None = UNSET


class NewFlavorBody(Model):
    """Body of POST /flavors."""

    flavor: NewFlavor


class FlavorChange(Model):
    """The field of a flavor that can be updated."""

    description: Text | None


class FlavorChangeBody(Model):
    """Body of PUT /flavors/{flavor_id}."""

    flavor: FlavorChange


class FlavorsQuery(Model, rename={"min_ram": "minRam", "min_disk": "minDisk"}):
    """Filters, order and page of a flavor list."""

    limit: Limit | None = None
    marker: str | None = None
    is_public: str | None = None
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
    # An empty text without swap before 2.75, as in Nova.
    swap: int | str
    ephemeral: int
    disabled: bool
    is_public: bool
    rxtx_factor: float
    links: tuple[Link, ...]
    description: str | UnsetType | None = UNSET
    extra_specs: dict[str, str] | UnsetType = UNSET


class FlavorAnswer(View):
    """One flavor."""

    flavor: FlavorView


class FlavorLinesAnswer(View):
    """A page of flavors without details."""

    flavors: list[FlavorLine]
    flavors_links: tuple[Link, ...] | UnsetType = UNSET


class FlavorsAnswer(View):
    """A page of flavors with all fields."""

    flavors: list[FlavorView]
    flavors_links: tuple[Link, ...] | UnsetType = UNSET


class SpecsBody(Model):
    """The extra specs to create or overwrite."""

    extra_specs: Specs


class SpecsAnswer(View):
    """Extra specs of a flavor."""

    extra_specs: dict[str, str]


# The cast shows type checkers a plain class; at run time the constraint of one key stays in force.
OneSpec = cast(
    "type[dict[str, str | int | float]]",
    Annotated[dict[SpecKey, SpecValue], Meta(min_length=1, max_length=1)],
)
"""One extra spec by its key."""
