"""What guest topologies and devices add to the needs of an instance (nova-behaviour.md 2.8)."""

from collections.abc import Mapping
from dataclasses import replace

from berth.domain.compute.flavor import Flavor, Needs
from berth.domain.compute.image import Image
from berth.domain.hardware.guest_topology import CpuPolicy, GuestTopology, ThreadPolicy
from berth.domain.hardware.hw_specs import (
    HYPERTHREADING,
    SOCKET_AFFINITY,
    Specs,
    asked_cpus,
    device_policy,
    pmem_classes,
    topology_of,
)
from berth.domain.hardware.pci import NumaPolicy, device_needs
from berth.domain.inventory.resources import PCPU, VCPU, add_amounts


def with_hardware(needs: Needs, flavor: Flavor, image: Image | None) -> Needs:
    """Add topology and devices, and what they mean for amounts and traits.

    Dedicated CPUs are asked of the class PCPU and no longer of VCPU, with one more when the
    emulator threads are isolated. The thread policies `require` and `isolate` require and forbid
    the trait HW_CPU_HYPERTHREADING; near devices by socket require the host to know of sockets.

    Raises:
        InvalidInputError: an extra spec or image property that cannot be read or contradicts.
    """
    properties: Mapping[str, str] = image.properties if image else {}
    specs = Specs(flavor.extra_specs, properties, flavor.vcpus, flavor.memory_mb)
    topology = topology_of(specs)
    policy = device_policy(specs)
    devices = device_needs(flavor.extra_specs, policy)
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
        return amounts  # resources:PCPU, perhaps of a group with a suffix, says it already
    dedicated = sum(len(cell.dedicated_cpus) for cell in topology.cells)
    floating = sum(len(cell.shared_cpus) for cell in topology.cells)
    cpus = {PCPU: dedicated + topology.isolates_emulator, VCPU: floating}
    return amounts | {name: amount for name, amount in cpus.items() if amount}
