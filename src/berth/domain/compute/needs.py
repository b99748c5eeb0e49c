"""The needs of one instance, resolved from its flavor and image (nova-behaviour.md 2.1, 2.8)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.guest_topology import CpuPolicy, GuestTopology, ThreadPolicy
from berth.domain.hardware.hw_specs import (
    HYPERTHREADING,
    SOCKET_AFFINITY,
    HardwareSpecs,
    asked_cpus,
    device_policy,
    pmem_classes,
    topology_of,
)
from berth.domain.hardware.pci import DeviceNeed, NumaPolicy, device_needs
from berth.domain.inventory.resource_group import (
    ResourceGroup,
    ResourceGroupBuilder,
    is_isolated,
    read_groups,
)
from berth.domain.inventory.resources import (
    AMOUNT_MAX,
    DISK_GB,
    MEMORY_MB,
    PCPU,
    VCPU,
    add_amounts,
    check_name,
)

_MB_PER_GB = 1024

# The extra spec for Placement's `in:` form of required traits, which Nova's extra specs lack.
_ANY_TRAIT = "berth:any_trait"


@dataclass(frozen=True, slots=True)
class Needs:
    """The amounts, traits, topology and devices that one instance needs of its host.

    `amounts` are in the units of their classes and contain no zeros. The host must have every trait
    of `traits_required`, none of `traits_forbidden`, and at least one of each set in `traits_any`.
    Each of `groups` must come from a single provider of the host's tree, and with `isolate` no two
    groups from the same provider. `topology` is None if the guest has no NUMA constraints.
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
    """Return the amounts, traits and groups of a flavor (nova-behaviour.md 2.1 step 2, 2.8).

    DISK_GB is ceil(((root + ephemeral) * 1024 + swap) / 1024). `resources:CLASS=n` replaces or adds
    an amount, and 0 removes it. `trait:NAME` is `required` or `forbidden`. Either key may have a
    suffix before the colon and then belongs to a group (see `resource_group`). Traits of the image
    never belong to a group. `berth:any_trait=A|B` requires one of several traits.

    Args:
        flavor: the requested flavor.
        image_traits: the image's `trait:NAME` properties, each `required` or `forbidden`.

    Raises:
        InvalidInputError: an extra spec or a trait of the image is invalid or contradicts another,
            or the disks are too large together; the error names the key.
    """
    disk_mb = (flavor.root_gb + flavor.ephemeral_gb) * _MB_PER_GB + flavor.swap_mb
    if disk_mb > AMOUNT_MAX:
        raise InvalidInputError(
            "disk",
            f"root, ephemeral and swap have {disk_mb} MiB together; at most {AMOUNT_MAX} MiB are "
            "allowed",
        )
    amounts = {
        VCPU: flavor.vcpus,
        MEMORY_MB: flavor.memory_mb,
        # As in Nova, the sum of all disks is rounded up, not each disk.
        DISK_GB: math.ceil(disk_mb / _MB_PER_GB),
    }
    unsuffixed = ResourceGroupBuilder(amounts=amounts)
    groups = read_groups(flavor.extra_specs, unsuffixed)
    for key, value in (image_traits or {}).items():
        # Nova applies the traits of an image to the unsuffixed group only.
        unsuffixed.add_trait(key, key.removeprefix("trait:"), value)
    group = unsuffixed.group()
    return Needs(
        amounts=group.amounts,
        traits_required=group.traits_required,
        traits_forbidden=group.traits_forbidden,
        traits_any=_choices(flavor),
        groups=groups,
        isolate=is_isolated(flavor.extra_specs, len(groups)),
    )


def _choices(flavor: Flavor) -> tuple[frozenset[str], ...]:
    text = flavor.extra_specs.get(_ANY_TRAIT)
    if text is None:
        return ()
    return (frozenset(check_name(name.strip(), _ANY_TRAIT) for name in text.split("|")),)


def with_hardware(needs: Needs, flavor: Flavor, image: Image | None) -> Needs:
    """Return needs extended by topology and devices, with the amounts and traits these imply.

    Dedicated CPUs are requested as PCPU instead of VCPU, plus one PCPU if emulator threads are
    isolated, unless the flavor itself requests PCPU. The thread policies `require` and `isolate`
    require and forbid the trait HW_CPU_HYPERTHREADING. The device policy `socket` requires the
    trait COMPUTE_SOCKET_PCI_NUMA_AFFINITY. Persistent memory is requested as amounts of its
    classes.

    Raises:
        InvalidInputError: an extra spec or image property is invalid or contradicts another.
    """
    properties: Mapping[str, str] = image.properties if image else {}
    specs = HardwareSpecs(flavor.extra_specs, properties, flavor.vcpus, flavor.memory_mb)
    topology = topology_of(specs)
    policy = device_policy(specs)
    devices = device_needs(flavor.extra_specs, policy)
    # Most requests ask for no hardware, and returning the same needs saves a copy.
    if topology is None and policy is None and not devices:
        return needs
    required, forbidden = set(needs.traits_required), set(needs.traits_forbidden)
    if policy is NumaPolicy.SOCKET:
        required.add(SOCKET_AFFINITY)
    if topology is not None and topology.thread_policy is ThreadPolicy.REQUIRE:
        required.add(HYPERTHREADING)
    if topology is not None and topology.thread_policy is ThreadPolicy.ISOLATE:
        forbidden.add(HYPERTHREADING)
    amounts = needs.amounts if topology is None else _amounts(needs, flavor, topology)
    return replace(
        needs,
        amounts=add_amounts(amounts, pmem_classes(flavor.extra_specs)),
        traits_required=frozenset(required),
        traits_forbidden=frozenset(forbidden),
        topology=topology,
        devices=devices,
    )


def _amounts(needs: Needs, flavor: Flavor, topology: GuestTopology) -> Mapping[str, int]:
    if topology.cpu_policy is CpuPolicy.SHARED:
        return needs.amounts
    amounts = {name: amount for name, amount in needs.amounts.items() if name != VCPU}
    if any(asked_cpus(flavor.extra_specs).values()):
        # The flavor requests PCPU explicitly, possibly in a suffixed group, so adding the guest's
        # dedicated CPUs would count them twice.
        return amounts
    dedicated = sum(len(cell.dedicated_cpus) for cell in topology.cells)
    floating = sum(len(cell.shared_cpus) for cell in topology.cells)
    cpus = {PCPU: dedicated + topology.isolates_emulator, VCPU: floating}
    return amounts | {name: amount for name, amount in cpus.items() if amount}
