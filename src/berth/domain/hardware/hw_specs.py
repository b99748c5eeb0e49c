"""Extra specs `hw:...` and image properties `hw_...`, parsed into a guest topology.

Source: nova-behaviour.md 6.2. Values and combinations that Nova's API rejects are rejected here
too, with an error that names the key.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.cpu_sets import parse_cpus
from berth.domain.hardware.guest_topology import (
    CpuPolicy,
    GuestCell,
    GuestTopology,
    PageSize,
    PageSizeClass,
    ThreadPolicy,
    cells_of,
    check_size,
    check_split,
    split_evenly,
)
from berth.domain.hardware.pci import NumaPolicy
from berth.domain.inventory.resources import AMOUNT_MAX

HYPERTHREADING = "HW_CPU_HYPERTHREADING"
"""Trait of hosts whose cores have several threads."""
SOCKET_AFFINITY = "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"
"""Trait of hosts that report the sockets of their NUMA cells."""

NODES_MAX = 128
"""Maximum number of NUMA cells of one guest."""

_TRUE = ("1", "t", "true", "on", "y", "yes")
# Nova also accepts sizes in bits (`b`, `bit`); `B` is bytes.
_BYTES = re.compile(r"(\d{1,15})(?:([KMGT])i?)?(b|bit|B)")
_FACTORS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_BITS = 8
_KILO = 1024
# As in Nova, `resources:VCPU` and `resources:PCPU` match with and without a group number.
_CPU_CLASS = re.compile(r"resources(?:[1-9][0-9]*)?:([VP]CPU)")
_THREADS_TRAIT = re.compile(rf"trait(?:[1-9][0-9]*)?:{HYPERTHREADING}")
EMULATOR = "hw:emulator_threads_policy"
"""Extra spec with the policy for the hypervisor's own threads."""
_DEDICATED_MASK = "hw:cpu_dedicated_mask"
_PMEM = "hw:pmem"

_E = TypeVar("_E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class HardwareSpecs:
    """The inputs of a topology: extra specs, image properties and the guest's size.

    `memory_mb` is in MiB.
    """

    extra_specs: Mapping[str, str]
    properties: Mapping[str, str]
    vcpus: int
    memory_mb: int

    @property
    def has_no_topology(self) -> bool:
        """Whether no extra spec or image property can request a topology, as in most requests."""
        return not any(
            key.startswith("hw:") or _CPU_CLASS.match(key) or _THREADS_TRAIT.match(key)
            for key in self.extra_specs
        ) and not any(key.startswith("hw_") or _THREADS_TRAIT.match(key) for key in self.properties)

    def both(self, name: str) -> tuple[str, str]:
        """Return the flavor's `hw:NAME` and the image's `hw_NAME`, each empty if absent."""
        return self.extra_specs.get(f"hw:{name}", ""), self.properties.get(f"hw_{name}", "")

    def key(self, name: str) -> str:
        """Return the key that sets a value: `hw_NAME` if only the image does, else `hw:NAME`."""
        flavor, image = self.both(name)
        return f"hw_{name}" if image and not flavor else f"hw:{name}"

    def parts(self, name: str) -> tuple[str, list[str]]:
        """Return a key and the values of KEY.0, KEY.1, ... up to the first that is missing.

        The key is `hw_NAME` if the image has any such values, and otherwise the flavor's `hw:NAME`,
        with an empty list if the flavor has none either.

        Raises:
            InvalidInputError: both the flavor and the image have such values.
        """
        flavor = _counted(self.extra_specs, f"hw:{name}")
        image = _counted(self.properties, f"hw_{name}")
        if flavor and image:
            raise InvalidInputError(
                f"hw_{name}", "is set by both the flavor and the image; remove one of the two"
            )
        return (f"hw_{name}", image) if image else (f"hw:{name}", flavor)


def topology_of(specs: HardwareSpecs) -> GuestTopology | None:
    """Return the topology that flavor and image request; None if they request none.

    NUMA cells, a page size, persistent memory and dedicated CPUs each imply a topology.

    Raises:
        InvalidInputError: a value is invalid, or two values contradict each other.
    """
    # Most requests have no such spec, and must cost no more than a scan of the keys.
    if specs.has_no_topology:
        return None
    isolates = _emulator_policy(specs) == "isolate"
    policy = _policy(specs, isolates=isolates)
    threads = _threads(specs)
    realtime = _realtime_cpus(specs)
    dedicated = _dedicated_mask(specs)
    # All values are validated before the early return, so an invalid value is rejected even if the
    # request ends up without a topology.
    _check_policy(specs, policy, isolates=isolates, realtime=realtime, dedicated=dedicated)
    nodes = _nodes(specs)
    page_size = _page_size(specs)
    _check_locked(specs)
    if not (nodes or page_size or pmem_classes(specs.extra_specs) or _is_pinned(policy)):
        return None
    # From here on CPUs are enumerated, and a flavor may have up to 2**53 - 1 of them.
    check_size(specs.vcpus)
    if policy is CpuPolicy.DEDICATED:
        own = frozenset(range(specs.vcpus))
    else:
        own = dedicated or (realtime if policy is CpuPolicy.MIXED else None) or frozenset()
    cells = _cells(specs, nodes or 1, own)
    return GuestTopology(
        cells,
        policy,
        threads,
        page_size,
        isolates_emulator=isolates,
        wants_threads=_wants_threads(specs),
    )


def device_policy(specs: HardwareSpecs) -> NumaPolicy | None:
    """Return the NUMA policy that flavor or image sets for all PCI devices; None if neither does.

    Raises:
        InvalidInputError: the policy is unknown, or flavor and image differ.
    """
    flavor, image = specs.both("pci_numa_affinity_policy")
    if flavor and image and flavor != image:
        reason = f"{image[:80]!r} contradicts the flavor's {flavor[:80]!r}; remove one of the two"
        raise InvalidInputError("hw_pci_numa_affinity_policy", reason)
    return read_member(NumaPolicy, flavor or image, specs.key("pci_numa_affinity_policy"))


def pmem_classes(extra_specs: Mapping[str, str]) -> dict[str, int]:
    """Return the amounts requested by `hw:pmem=LABEL,LABEL`, by custom resource class."""
    amounts: dict[str, int] = {}
    for label in extra_specs.get(_PMEM, "").split(","):
        if label.strip():
            # Nova derives the name of the custom resource class from the label in this way.
            name = re.sub(r"[^A-Z0-9_]", "_", f"PMEM_NAMESPACE_{label.strip()}".upper())
            amounts[f"CUSTOM_{name}"] = amounts.get(f"CUSTOM_{name}", 0) + 1
    return amounts


def _counted(values: Mapping[str, str], key: str) -> list[str]:
    found: list[str] = []
    for number in range(NODES_MAX):
        value = values.get(f"{key}.{number}")
        # Numbering ends at the first gap, as in Nova.
        if value is None:
            break
        found.append(value)
    return found


def _is_pinned(policy: CpuPolicy) -> bool:
    return policy is not CpuPolicy.SHARED


def read_member(kind: type[_E], text: str, key: str) -> _E | None:
    """Return the member of an enumeration with the given value; None for an empty string.

    Raises:
        InvalidInputError: the value is unknown; the error names `key`.
    """
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        reason = f"{text[:80]!r} must be one of {', '.join(kind)}"
        raise InvalidInputError(key, reason) from None


def _is_true(text: str) -> bool:
    return text.strip().lower() in _TRUE


def emulator_policy(text: str, key: str) -> str:
    """Return `text` if it is a valid emulator thread policy or empty.

    Raises:
        InvalidInputError: the policy is unknown; the error names `key`.
    """
    if text not in ("", "share", "isolate"):
        raise InvalidInputError(key, f"{text[:80]!r} must be 'share' or 'isolate'")
    return text


def _emulator_policy(specs: HardwareSpecs) -> str:
    return emulator_policy(specs.extra_specs.get(EMULATOR, ""), EMULATOR)


def _policy(specs: HardwareSpecs, *, isolates: bool) -> CpuPolicy:
    """Return the CPU policy of flavor or image, else dedicated for PCPU requests, else shared."""
    of_flavor, of_image = specs.both("cpu_policy")
    flavor = read_member(CpuPolicy, of_flavor, "hw:cpu_policy")
    image = read_member(CpuPolicy, of_image, "hw_cpu_policy")
    # As in Nova, an image may restrict its flavor, but not request more than the flavor.
    floats = flavor is CpuPolicy.SHARED and image not in (None, CpuPolicy.SHARED)
    if floats or (flavor is CpuPolicy.MIXED and image is CpuPolicy.DEDICATED):
        reason = f"{image} contradicts the flavor's {flavor}; an image may only restrict its flavor"
        raise InvalidInputError("hw_cpu_policy", reason)
    policy = flavor or image
    asked = asked_cpus(specs.extra_specs)
    if policy and any(asked.values()):
        reason = f"conflicts with {specs.key('cpu_policy')}; use one or the other"
        raise InvalidInputError("resources:VCPU, resources:PCPU", reason)
    if asked["VCPU"] and asked["PCPU"]:
        raise InvalidInputError(
            "resources:VCPU", "conflicts with resources:PCPU; use one or the other"
        )
    if not asked["PCPU"]:
        return policy or CpuPolicy.SHARED
    needed = specs.vcpus + isolates
    if asked["PCPU"] != needed:
        more = " plus one for the emulator threads" if isolates else ""
        reason = f"{asked['PCPU']} must be {needed}, the number of the flavor's vcpus{more}"
        raise InvalidInputError("resources:PCPU", reason)
    return CpuPolicy.DEDICATED


def asked_cpus(extra_specs: Mapping[str, str]) -> dict[str, int]:
    """Return the VCPU and PCPU amounts of all resource groups together; invalid ones count as 0."""
    asked = {"VCPU": 0, "PCPU": 0}
    for key, value in extra_specs.items():
        found = _CPU_CLASS.fullmatch(key)
        if found and value.isascii() and value.isdigit() and len(value) <= len(str(AMOUNT_MAX)):
            asked[found[1]] += int(value)
    return asked


def _threads(specs: HardwareSpecs) -> ThreadPolicy | None:
    """Return the thread policy of flavor or image, else the one that a trait implies, else None."""
    of_flavor, of_image = specs.both("cpu_thread_policy")
    flavor = read_member(ThreadPolicy, of_flavor, "hw:cpu_thread_policy")
    image = read_member(ThreadPolicy, of_image, "hw_cpu_thread_policy")
    if flavor not in (None, ThreadPolicy.PREFER) and image not in (None, flavor):
        reason = f"{image} contradicts the flavor's {flavor}; make the two equal"
        raise InvalidInputError("hw_cpu_thread_policy", reason)
    policy = flavor or image
    trait = _threads_trait(specs)
    if policy and trait:
        reason = f"conflicts with {specs.key('cpu_thread_policy')}; use one or the other"
        raise InvalidInputError(f"trait:{HYPERTHREADING}", reason)
    stands_for = {"required": ThreadPolicy.REQUIRE, "forbidden": ThreadPolicy.ISOLATE}
    return policy or stands_for.get(trait)


def _wants_threads(specs: HardwareSpecs) -> bool:
    # An image that requires siblings restricts the host even if the flavor only prefers them, as in
    # Nova (see `GuestTopology`).
    is_dedicated = CpuPolicy.DEDICATED in specs.both("cpu_policy")
    return is_dedicated and ThreadPolicy.REQUIRE in specs.both("cpu_thread_policy")


def _threads_trait(specs: HardwareSpecs) -> str:
    for key, value in specs.extra_specs.items():
        if _THREADS_TRAIT.fullmatch(key):
            return value
    # Images can only require traits; Nova ignores a forbidden one.
    of_image = specs.properties.get(f"trait:{HYPERTHREADING}", "")
    return of_image if of_image == "required" else ""


def _mask(text: str, key: str, vcpus: int) -> frozenset[int]:
    # The size is checked before the range is expanded: a flavor may have up to 2**53 - 1 CPUs.
    check_size(vcpus)
    # A mask that starts with an exclusion starts from all CPUs, as in Nova.
    whole = f"0-{vcpus - 1}," if text.strip().startswith("^") and vcpus else ""
    return parse_cpus(whole + text, key)


def _dedicated_mask(specs: HardwareSpecs) -> frozenset[int] | None:
    text = specs.extra_specs.get(_DEDICATED_MASK)
    if not text:
        return None
    cpus = _mask(text, _DEDICATED_MASK, specs.vcpus)
    every = frozenset(range(specs.vcpus))
    if not cpus or not every - cpus or not cpus <= every:
        reason = f"must name some, but not all, of the flavor's {specs.vcpus} CPUs, and no others"
        raise InvalidInputError(_DEDICATED_MASK, reason)
    return cpus


def _realtime_cpus(specs: HardwareSpecs) -> frozenset[int] | None:
    if not _is_true(specs.extra_specs.get("hw:cpu_realtime", "")):
        return None
    flavor, image = specs.both("cpu_realtime_mask")
    key = "hw_cpu_realtime_mask" if image else "hw:cpu_realtime_mask"
    check_size(specs.vcpus)
    every = frozenset(range(specs.vcpus))
    cpus = _mask(image or flavor, key, specs.vcpus) if image or flavor else every
    if not cpus or not cpus <= every:
        raise InvalidInputError(
            key, f"must name at least one of the flavor's {specs.vcpus} CPUs, and no others"
        )
    if cpus == every and not _emulator_policy(specs):
        reason = f"leaves no CPU for the rest of the guest; exclude a CPU, or set {EMULATOR}"
        raise InvalidInputError(key, reason)
    return cpus


def _check_policy(
    specs: HardwareSpecs,
    policy: CpuPolicy,
    *,
    isolates: bool,
    realtime: frozenset[int] | None,
    dedicated: frozenset[int] | None,
) -> None:
    """Reject options that contradict the CPU policy."""
    if policy is CpuPolicy.MIXED:
        if bool(realtime) == bool(dedicated):
            reason = "hw:cpu_policy=mixed requires this or hw:cpu_realtime, but not both"
            raise InvalidInputError(_DEDICATED_MASK, reason)
    elif dedicated:
        raise InvalidInputError(
            _DEDICATED_MASK, "requires hw:cpu_policy=mixed; set it, or remove the mask"
        )
    if _is_pinned(policy):
        return
    for key, given in (
        (specs.key("cpu_thread_policy"), any(specs.both("cpu_thread_policy"))),
        (f"trait:{HYPERTHREADING}", bool(_threads_trait(specs))),
        (EMULATOR, isolates),
        ("hw:cpu_realtime", realtime is not None),
    ):
        if given:
            raise InvalidInputError(
                key, f"requires hw:cpu_policy=dedicated or mixed; set it, or remove {key}"
            )


def _nodes(specs: HardwareSpecs) -> int:
    flavor, image = specs.both("numa_nodes")
    if flavor and image:
        raise InvalidInputError(
            "hw_numa_nodes", "is set by both the flavor and the image; remove one of the two"
        )
    text = flavor or image
    if not text:
        return 0
    return whole_number(text, specs.key("numa_nodes"), least=1, most=NODES_MAX)


def whole_number(text: str, key: str, *, least: int, most: int) -> int:
    """Return the integer that a string denotes.

    Raises:
        InvalidInputError: the string is not a whole number between `least` and `most`; the error
            names `key`.
    """
    digits = text.strip()
    short = digits.isascii() and digits.isdigit() and len(digits) <= len(str(most))
    if not short or not least <= int(digits) <= most:
        raise InvalidInputError(
            key, f"{text[:80]!r} must be a whole number between {least} and {most}"
        )
    return int(digits)


def _page_size(specs: HardwareSpecs) -> PageSize:
    flavor, image = specs.both("mem_page_size")
    size = read_size(flavor, "hw:mem_page_size")
    if not image:
        return size
    if size not in (PageSizeClass.ANY, PageSizeClass.LARGE):
        reason = (
            "an image may set a page size only if the flavor sets hw:mem_page_size to 'large' or "
            "'any'; change the flavor, or remove the property"
        )
        raise InvalidInputError("hw_mem_page_size", reason)
    return read_size(image, "hw_mem_page_size")


def read_size(text: str, key: str) -> PageSize:
    """Return a page size in KiB or a size class; None for an empty string.

    Raises:
        InvalidInputError: the string is neither; the error names `key`.
    """
    if not text:
        return None
    if text in tuple(PageSizeClass):
        return PageSizeClass(text)
    if text.isascii() and text.isdigit():
        return whole_number(text, key, least=1, most=AMOUNT_MAX)
    found = _BYTES.fullmatch(text)
    if found:
        size = int(found[1]) * _FACTORS[found[2] or ""] / (1 if found[3] == "B" else _BITS) / _KILO
        if size.is_integer() and 1 <= size <= AMOUNT_MAX:
            return math.floor(size)
    reason = (
        f"{text[:80]!r} must be small, large, any, a size in KiB, or a size with a unit (2MB, 1GB)"
    )
    raise InvalidInputError(key, reason)


def _check_locked(specs: HardwareSpecs) -> None:
    flavor, image = specs.both("locked_memory")
    if flavor and image and _is_true(flavor) != _is_true(image):
        raise InvalidInputError(
            "hw_locked_memory", "contradicts the flavor's hw:locked_memory; remove one of the two"
        )
    if (_is_true(flavor) or _is_true(image)) and not any(specs.both("mem_page_size")):
        key = "hw:locked_memory" if _is_true(flavor) else "hw_locked_memory"
        raise InvalidInputError(key, "requires a page size; set hw:mem_page_size in the flavor")


def _cells(specs: HardwareSpecs, count: int, own: frozenset[int]) -> tuple[GuestCell, ...]:
    cpu_key, cpu_texts = specs.parts("numa_cpus")
    memory_key, memory_texts = specs.parts("numa_mem")
    if not cpu_texts and not memory_texts:
        return split_evenly(specs.key("numa_nodes"), count, specs.vcpus, specs.memory_mb, own)
    for key, texts in ((cpu_key, cpu_texts), (memory_key, memory_texts)):
        if len(texts) != count:
            reason = (
                f"is set for {len(texts)} NUMA cells, but the guest has {count}; set the CPUs and "
                "the memory of each"
            )
            raise InvalidInputError(key, reason)
    cpus = {
        (key := f"{cpu_key}.{number}"): parse_cpus(text, key)
        for number, text in enumerate(cpu_texts)
    }
    memory_mb = {
        (key := f"{memory_key}.{number}"): whole_number(text, key, least=0, most=AMOUNT_MAX)
        for number, text in enumerate(memory_texts)
    }
    check_split(cpus, memory_mb, specs.vcpus, specs.memory_mb)
    return cells_of(tuple(cpus.values()), tuple(memory_mb.values()), own)


# The specs that are validated when a flavor is edited. Specs are set one by one, so contradictions
# between them can only be detected later.
_READERS: Final[Mapping[str, Callable[[str, str], object]]] = {
    "hw:cpu_policy": partial(read_member, CpuPolicy),
    "hw:cpu_thread_policy": partial(read_member, ThreadPolicy),
    "hw:pci_numa_affinity_policy": partial(read_member, NumaPolicy),
    "hw:numa_nodes": partial(whole_number, least=1, most=NODES_MAX),
    "hw:mem_page_size": read_size,
    EMULATOR: emulator_policy,
}


def check_values(extra_specs: Mapping[str, str]) -> None:
    """Validate the policies, number of NUMA nodes and page size in `hw:` specs, each on its own.

    Contradictions between specs, or with an image, are detected when a request combines them.

    Raises:
        InvalidInputError: a value is invalid; the error names its key.
    """
    for key, text in extra_specs.items():
        reader = _READERS.get(key)
        if reader is not None:
            reader(text, key)
