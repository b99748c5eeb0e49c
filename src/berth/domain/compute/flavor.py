"""Flavors and images: the size of an instance and what it boots from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import AMOUNT_MAX

SIZE_MAX: Final = 2**31 - 1
"""Maximum of the VCPUs, memory (MiB), disks (GiB) and swap (MiB) of a flavor from another
process."""
_PAIRS_MAX: Final = 1_024
_NAME_MAX: Final = 255
# Maximum total length of all keys and values, in characters: that of the largest extra specs that
# the API accepts. It also applies to image properties, although a single value of theirs may be
# longer.
_PAIRS_TEXT_MAX: Final = _PAIRS_MAX * 2 * _NAME_MAX
_TEXT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Flavor:
    """A named size with extra specs, as in the compute API.

    Memory and swap are in MiB, disks in GiB. `disabled` and `rxtx_factor` are kept for clients; no
    rule reads them.
    """

    flavor_id: str
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=dict[str, str])
    is_public: bool = True
    disabled: bool = False
    rxtx_factor: float = 1.0
    description: str | None = None

    def __post_init__(self) -> None:
        """Reject sizes that are negative or above AMOUNT_MAX.

        Raises:
            InvalidInputError: a size is out of range; the error names the field.
        """
        for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb"):
            value = getattr(self, name)
            if not 0 <= value <= AMOUNT_MAX:
                raise InvalidInputError(name, f"{value} must be between 0 and {AMOUNT_MAX}")


@dataclass(frozen=True, slots=True)
class Image:
    """The id of an image and the properties that rules read (`hw_architecture`, `trait:...`).

    `min_memory_mb` (MiB) and `min_disk_gb` (GiB) are the smallest memory and root disk of a flavor
    with which the image can be used; 0 means no limit.
    """

    image_id: str
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    min_memory_mb: int = 0
    min_disk_gb: int = 0

    @property
    def traits(self) -> dict[str, str]:
        """The `trait:NAME` properties, in the syntax of flavor extra specs."""
        return {k: v for k, v in self.properties.items() if k.startswith("trait:")}


def check_received(flavor: Flavor, image: Image | None) -> None:
    """Reject a flavor or an image with values that no client could have set.

    Orders of parent zones and of other processes contain flavors and images as a whole.

    Raises:
        InvalidInputError: see `check_received_flavor` and `check_received_image`.
    """
    check_received_flavor(flavor)
    if image is not None:
        check_received_image(image)


def check_received_flavor(flavor: Flavor) -> None:
    """Reject a flavor with values that no client could have set.

    Raises:
        InvalidInputError: a number is out of range, a string is too long, or the extra specs
            are too many or too long in total; the error names the field.
    """
    for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb"):
        if (value := getattr(flavor, name)) > SIZE_MAX:
            raise InvalidInputError(f"flavor.{name}", f"{value} must be at most {SIZE_MAX}")
    _check_pairs("flavor.extra_specs", flavor.extra_specs, _NAME_MAX)
    _check_text("flavor.description", flavor.description or "", _TEXT_MAX)
    _check_text("flavor.flavor_id", flavor.flavor_id, _NAME_MAX)
    _check_text("flavor.name", flavor.name, _NAME_MAX)


def check_received_image(image: Image) -> None:
    """Reject an image with values that no image service could have.

    Raises:
        InvalidInputError: a number is out of range, a string is too long, or the properties
            are too many or too long in total; the error names the field.
    """
    _check_pairs("image.properties", image.properties, _TEXT_MAX)
    for name in ("min_memory_mb", "min_disk_gb"):
        if not 0 <= (value := getattr(image, name)) <= SIZE_MAX:
            raise InvalidInputError(f"image.{name}", f"{value} must be between 0 and {SIZE_MAX}")
    _check_text("image.image_id", image.image_id, _NAME_MAX)
    _check_text("image.name", image.name, _NAME_MAX)


def _check_pairs(field_name: str, pairs: Mapping[str, str], longest: int) -> None:
    if len(pairs) > _PAIRS_MAX:
        reason = f"has {len(pairs)} entries; at most {_PAIRS_MAX} are allowed"
        raise InvalidInputError(field_name, reason)
    length = sum(len(key) + len(value) for key, value in pairs.items())
    if length > _PAIRS_TEXT_MAX:
        reason = f"has {length} characters in total; at most {_PAIRS_TEXT_MAX} are allowed"
        raise InvalidInputError(field_name, reason)
    for key, value in pairs.items():
        _check_text(field_name, key, _NAME_MAX)
        _check_text(f"{field_name}.{key[:80]}", value, longest)


def _check_text(field_name: str, text: str, longest: int) -> None:
    if len(text) > longest:
        reason = f"has {len(text)} characters; at most {longest} are allowed"
        raise InvalidInputError(field_name, reason)


PROJECTS_MAX: Final = 10_000
"""Maximum number of projects with access to one flavor."""


@dataclass(frozen=True, slots=True)
class FlavorAccess:
    """The projects with access to a flavor, sorted; they matter only while the flavor is private.

    They are not part of the flavor, because each instance has a copy of its flavor.
    """

    flavor_id: str
    projects: tuple[str, ...] = ()

    def with_project(self, project_id: str) -> "FlavorAccess":
        """Return a copy with one more project."""
        return replace(self, projects=tuple(sorted({*self.projects, project_id})))

    def without(self, project_id: str) -> "FlavorAccess":
        """Return a copy without the given project."""
        return replace(self, projects=tuple(one for one in self.projects if one != project_id))
