"""Flavors: what one instance is asked to be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.guest_topology import GuestTopology
from berth.domain.hardware.pci import DeviceNeed
from berth.domain.inventory.resource_group import (
    GroupDraft,
    ResourceGroup,
    is_isolated,
    read_groups,
)
from berth.domain.inventory.resources import AMOUNT_MAX, DISK_GB, MEMORY_MB, VCPU, check_name

_MB_PER_GB = 1024
_ANY_TRAIT = "berth:any_trait"


@dataclass(frozen=True, slots=True)
class Flavor:
    """A named size with extra specs, as the compute API knows it."""

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
        """Refuse negative or absurd sizes.

        Raises:
            InvalidInputError: naming the field.
        """
        for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb"):
            value = getattr(self, name)
            if not 0 <= value <= AMOUNT_MAX:
                raise InvalidInputError(name, f"{value} must be between 0 and {AMOUNT_MAX}")


@dataclass(frozen=True, slots=True)
class Needs:
    """What one instance needs of its host, resolved from flavor and image.

    `amounts` holds no zeros. A host must have every trait of `traits_required`, none of
    `traits_forbidden`, and at least one of each set in `traits_any`. On top of that, each of
    `groups` comes from one provider of the host's tree; with `isolate` no two from the same.
    `topology` and `devices` are what it asks of NUMA cells and PCI devices (see `hw_needs`).
    """

    amounts: Mapping[str, int]
    traits_required: frozenset[str] = frozenset()
    traits_forbidden: frozenset[str] = frozenset()
    traits_any: tuple[frozenset[str], ...] = ()
    groups: tuple[ResourceGroup, ...] = ()
    isolate: bool = False
    topology: GuestTopology | None = None
    devices: tuple[DeviceNeed, ...] = ()


def needs_of(flavor: Flavor, image_traits: Mapping[str, str] | None = None) -> Needs:
    """Resolve a flavor into amounts and traits (nova-behaviour.md 2.1 step 2, 2.8).

    DISK_GB is ceil(((root + ephemeral) x 1024 + swap) / 1024). `resources:CLASS=n` overrides or
    adds, 0 removes. `trait:NAME` is `required` or `forbidden`. With a suffix before the colon
    both belong to a group (see `resource_group`); traits of the image never do.
    `berth:any_trait=A|B` asks for one of several (Placement's `in:` form, which Nova's flavors
    cannot say).

    Args:
        flavor: the flavor asked for.
        image_traits: `trait:NAME` properties of the image, same grammar.

    Raises:
        InvalidInputError: an extra spec that cannot be read, named by its key.
    """
    disk_mb = (flavor.root_gb + flavor.ephemeral_gb) * _MB_PER_GB + flavor.swap_mb
    if disk_mb > AMOUNT_MAX:
        raise InvalidInputError("disk", f"root, ephemeral and swap are above {AMOUNT_MAX} MB")
    amounts = {
        VCPU: flavor.vcpus,
        MEMORY_MB: flavor.memory_mb,
        DISK_GB: math.ceil(disk_mb / _MB_PER_GB),
    }
    unsuffixed = GroupDraft(amounts=amounts)
    groups = read_groups(flavor.extra_specs, unsuffixed)
    for key, value in (image_traits or {}).items():
        unsuffixed.add_trait(key, key.removeprefix("trait:"), value)
    mine = unsuffixed.group()
    return Needs(
        amounts=mine.amounts,
        traits_required=mine.traits_required,
        traits_forbidden=mine.traits_forbidden,
        traits_any=_choices(flavor),
        groups=groups,
        isolate=is_isolated(flavor.extra_specs, len(groups)),
    )


def _choices(flavor: Flavor) -> tuple[frozenset[str], ...]:
    text = flavor.extra_specs.get(_ANY_TRAIT)
    if text is None:
        return ()
    return (frozenset(check_name(name.strip(), _ANY_TRAIT) for name in text.split("|")),)
