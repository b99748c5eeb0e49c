"""The fleets of providers that both sides get, and the paths of the requests."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.uuids import named_uuid

TRAIT = "HW_CPU_X86_AVX2"
AGGREGATE = named_uuid("bench:aggregate")
HOST: Mapping[str, int] = {"VCPU": 64, "MEMORY_MB": 262_144, "DISK_GB": 4_000}
ASKED: Mapping[str, int] = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}
RATIOS: Mapping[str, float] = {"VCPU": 4.0}
DEVICES = 8
TREE = 7
"""The number of providers in a tree: a root, two NUMA nodes, and two network devices in each."""

_PLENTY = 10**9
_LEFT_OUT_OF = 10


@dataclass(frozen=True, slots=True)
class Node:
    """A provider; totals are in the unit of each class, `parent` is the parent's uuid."""

    uuid: str
    name: str
    totals: Mapping[str, int] = field(default_factory=dict[str, int])
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    parent: str | None = None


def uuid_of(name: str) -> str:
    """Return the uuid of the provider with a name."""
    return named_uuid(f"bench:{name}")


def flat(count: int) -> tuple[Node, ...]:
    """Return hosts without children.

    The first has capacity for all claims at the same time. Of each ten hosts, one lacks the trait
    and another is outside the aggregate.
    """
    return tuple(
        Node(
            uuid_of(f"host-{index}"),
            f"host-{index}",
            HOST if index else dict.fromkeys(HOST, _PLENTY),
            () if index % _LEFT_OUT_OF == 1 else (TRAIT,),
            () if index % _LEFT_OUT_OF == 2 else (AGGREGATE,),
        )
        for index in range(count)
    )


def nested(trees: int) -> tuple[Node, ...]:
    """Return hosts of seven providers each."""
    nodes: list[Node] = []
    for index in range(trees):
        root = f"tree-{index}"
        nodes.append(Node(uuid_of(root), root, {"DISK_GB": HOST["DISK_GB"]}))
        for cell in (f"{root}-numa-0", f"{root}-numa-1"):
            totals = {"VCPU": 32, "MEMORY_MB": 131_072}
            nodes.append(Node(uuid_of(cell), cell, totals, parent=uuid_of(root)))
            for device in (f"{cell}-nic-0", f"{cell}-nic-1"):
                vfs = {"SRIOV_NET_VF": 8}
                nodes.append(Node(uuid_of(device), device, vfs, parent=uuid_of(cell)))
    return tuple(nodes)


def wide() -> tuple[Node, ...]:
    """Return one host with eight children, each with one device."""
    root = Node(uuid_of("wide"), "wide", HOST)
    names = [f"wide-{index}" for index in range(DEVICES)]
    devices = (Node(uuid_of(name), name, {"VGPU": 1}, parent=root.uuid) for name in names)
    return (root, *devices)


def candidates(limit: int | None = 1_000, *, narrowed: bool = False, in_tree: str = "") -> str:
    """Return the path of a query for candidates with amounts of three classes.

    Args:
        limit: the most candidates to return; None for all.
        narrowed: whether to require the trait and the aggregate.
        in_tree: uuid of a provider in the only tree to search; "" for all trees.
    """
    path = f"/allocation_candidates?resources={_amounts(ASKED)}"
    if narrowed:
        path += f"&required={TRAIT}&member_of={AGGREGATE}"
    return path + _ending(limit, in_tree)


def two_groups(limit: int | None = 1_000, in_tree: str = "") -> str:
    """Return the path of a query for processors with memory, and for a network device."""
    path = "/allocation_candidates?resources1=VCPU:1,MEMORY_MB:512&resources2=SRIOV_NET_VF:1"
    trees = f"&in_tree1={in_tree}&in_tree2={in_tree}" if in_tree else ""
    return f"{path}&group_policy=none{trees}{_ending(limit)}"


def one_device_each(groups: int, limit: int | None = 1_000) -> str:
    """Return the path of a query for `groups` devices, each in its own group."""
    asked = "&".join(f"resources{number}=VGPU:1" for number in range(1, groups + 1))
    return f"/allocation_candidates?{asked}&group_policy=none{_ending(limit)}"


def providers(*, narrowed: bool = False) -> str:
    """Return the path of a list of providers with capacity, optionally by trait and aggregate."""
    path = f"/resource_providers?resources={_amounts(ASKED)}"
    return path + (f"&required={TRAIT}&member_of={AGGREGATE}" if narrowed else "")


def _amounts(amounts: Mapping[str, int]) -> str:
    return ",".join(f"{name}:{amount}" for name, amount in amounts.items())


def _ending(limit: int | None, in_tree: str = "") -> str:
    tree = f"&in_tree={in_tree}" if in_tree else ""
    return tree + (f"&limit={limit}" if limit is not None else "")
