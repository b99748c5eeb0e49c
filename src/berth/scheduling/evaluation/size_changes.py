"""Amounts of a request that could be smaller: sizes of its flavor, resource classes, devices.

One size covers all that a caller must edit together: memory in lists of NUMA cells is reduced in
the lists and in the flavor, and equal groups of resources are reduced alike.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from berth.domain.compute.flavor import SIZE_MAX, Flavor
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.cpu_sets import parse_cpus
from berth.domain.inventory.resources import AMOUNT_MAX, DISK_GB, MEMORY_MB, PCPU, VCPU
from berth.scheduling.evaluation.request_edits import value_of, with_spec
from berth.scheduling.granular.explain import named
from berth.scheduling.granular.tree_request import GroupKind, tree_request_of

ALIASES: Final = "pci_passthrough:alias"

_NODES: Final = "hw:numa_nodes"
_CPUS: Final = "hw:numa_cpus"
_MEMORY: Final = "hw:numa_mem"
_MASKS: Final = ("hw:cpu_dedicated_mask", "hw:cpu_realtime_mask")
_RESOURCES: Final = "resources:"
_SIZED: Final = (VCPU, MEMORY_MB, DISK_GB)
_MB_PER_GB: Final = 1024

_TEXTS: Final[Mapping[str, str]] = {
    VCPU: "{amount} VCPU {more}",
    MEMORY_MB: "{amount} MB {more} memory",
    DISK_GB: "{amount} GB {more} disk",
}


@dataclass(frozen=True, slots=True)
class RequestChange:
    """One change, as text ("without the hint same_host"), and the request after it.

    Of the changes with the same non-empty `series`, the first that helps is the smallest one. A
    `fallback` is offered only if nothing else helps, because other texts describe it better.
    """

    subject: str
    text: str
    request: Request
    change: int | None = None
    series: str = ""
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A reduction of one size of a request, in steps.

    `times_max` is the largest number of steps. `text` contains `{amount}`, and may contain `{more}`
    for "more" or "less". `largest` is the size in one NUMA cell, or the whole size without cells.
    `reduced` returns the request with the size reduced by an amount, or increased by a negative
    one. If the reduction helps, the other changes of its `series` are not offered.
    """

    subject: str
    text: str
    step: int
    times_max: int
    largest: int
    reduced: Callable[[int], Request]
    series: str = ""

    def allows(self, amount: int) -> bool:
        """Return whether a flavor may have the size reduced by an amount, or increased if < 0."""
        try:
            flavor = self.reduced(amount).flavor
        except InvalidInputError:
            return False
        # Only a flavor of a state file may be above the limit of the API, and may become smaller.
        sizes = (flavor.vcpus, flavor.memory_mb, flavor.root_gb)
        return amount >= 0 or max(sizes) <= SIZE_MAX

    def by(self, times: int) -> RequestChange:
        """Return the change that reduces the size by a number of steps, or increases it if < 0.

        Raises:
            InvalidInputError: the size would be negative or above the limit of flavors.
        """
        amount = times * self.step
        words = {
            "{amount}": f"{abs(amount):,}",
            "{more}": "less" if times > 0 else "more",
            "{devices}": "device" if abs(amount) == 1 else "devices",
        }
        text = self.text
        # Names of devices may contain any characters, so the text is no format string.
        for word, value in words.items():
            text = text.replace(word, value, 1)
        return RequestChange(self.subject, text, self.reduced(amount), -amount)


def sizes_of(request: Request) -> Iterator[SizeChange]:
    """Yield the sizes of a request that could be smaller, and sizes of its flavor even if not.

    VCPUs and memory remain above 0, as the API requires. A size of the flavor that an extra spec
    overrides is left out. With NUMA cells of equal size, a step reduces all of them.
    """
    for size in (
        *_flavor_sizes(request),
        *_classes(request),
        *_groups(request),
        *_devices(request),
    ):
        if size.times_max >= 0:
            yield size


# ---- sizes of the flavor ------------------------------------------------------------------------


def _flavor_sizes(request: Request) -> Iterator[SizeChange]:
    flavor, specs = request.flavor, request.flavor.extra_specs
    nodes = value_of(request, _NODES)
    cells = max(int(nodes), 1) if nodes.isdecimal() else 1
    has_lists = any(key.startswith((_CPUS, _MEMORY)) for key in specs)
    if has_lists:
        yield from _listed(request)
    whole = (
        (VCPU, flavor.vcpus, 1, _fewer_vcpus),
        (MEMORY_MB, flavor.memory_mb, 1, _less_memory),
        (DISK_GB, _disk_gb(flavor), 0, _less_disk),
    )
    for name, size, least, reduce in whole:
        step = 1 if name == DISK_GB else cells
        if f"{_RESOURCES}{name}" in specs or (has_lists and name != DISK_GB):
            continue
        text = _TEXTS[name]
        if name == VCPU and f"{_RESOURCES}{PCPU}" in specs:
            # The two must be equal.
            text += f" in the flavor and {_RESOURCES}{PCPU}"
        yield SizeChange(
            name,
            text,
            step,
            max(size - least, 0) // step,
            size // step,
            lambda amount, reduce=reduce: reduce(request, amount),  # type: ignore[misc]
        )


def _fewer_vcpus(request: Request, less: int) -> Request:
    flavor, key = request.flavor, f"{_RESOURCES}{PCPU}"
    specs = dict(flavor.extra_specs)
    if key in specs and specs[key].isdecimal():
        specs[key] = str(int(specs[key]) - less)
    flavor = replace(flavor, vcpus=flavor.vcpus - less, extra_specs=specs)
    return replace(request, flavor=flavor)


def _less_memory(request: Request, less_mb: int) -> Request:
    flavor = request.flavor
    return replace(request, flavor=replace(flavor, memory_mb=flavor.memory_mb - less_mb))


def _disk_gb(flavor: Flavor) -> int:
    return flavor.root_gb + flavor.ephemeral_gb + -(-flavor.swap_mb // _MB_PER_GB)


def _less_disk(request: Request, less_gb: int) -> Request:
    """Return the request with smaller disks: the root disk first, then the others."""
    flavor = request.flavor
    root_gb = max(flavor.root_gb - less_gb, 0)
    less_gb -= flavor.root_gb - root_gb
    ephemeral_gb = max(flavor.ephemeral_gb - less_gb, 0)
    less_gb -= flavor.ephemeral_gb - ephemeral_gb
    swap_mb = max(flavor.swap_mb - less_gb * _MB_PER_GB, 0)
    disks = replace(flavor, root_gb=root_gb, ephemeral_gb=ephemeral_gb, swap_mb=swap_mb)
    return replace(request, flavor=disks)


def _listed(request: Request) -> Iterator[SizeChange]:
    """Yield the CPUs and the memory that the flavor lists for each NUMA cell."""
    specs = request.flavor.extra_specs
    cpus = [key for key in specs if key.startswith(f"{_CPUS}.")]
    memory = [key for key in specs if key.startswith(f"{_MEMORY}.")]
    try:
        cells = {key: sorted(parse_cpus(specs[key], key)) for key in cpus}
        most_cpus = max(map(len, cells.values()), default=0)
        most_mb = max((int(specs[key]) for key in memory), default=0)
    except (InvalidInputError, ValueError):
        return

    def fewer_cpus(less: int) -> Request:
        kept = {key: ids[: max(len(ids) - less, 0)] for key, ids in cells.items()}
        # The ids of the remaining CPUs must be contiguous.
        new = {old: n for n, old in enumerate(sorted(chain.from_iterable(kept.values())))}
        texts = {key: ",".join(str(new[one]) for one in ids) for key, ids in kept.items()}
        flavor = replace(request.flavor, vcpus=len(new), extra_specs={**specs, **texts})
        return replace(request, flavor=flavor)

    def less_memory(less_mb: int) -> Request:
        kept = {key: max(int(specs[key]) - less_mb, 0) for key in memory}
        texts = {key: str(amount) for key, amount in kept.items()}
        total = sum(kept.values())
        flavor = replace(request.flavor, memory_mb=total, extra_specs={**specs, **texts})
        return replace(request, flavor=flavor)

    # A mask names CPUs by their ids, so it would mean other CPUs.
    if not any(key in specs for key in _MASKS):
        text = f"{_TEXTS[VCPU]} in each {_CPUS}.N and as many in the flavor"
        yield SizeChange(VCPU, text, 1, most_cpus - 1, most_cpus, fewer_cpus)
    text = f"{_TEXTS[MEMORY_MB]} in each {_MEMORY}.N and as much in the flavor"
    yield SizeChange(MEMORY_MB, text, 1, most_mb - 1, most_mb, less_memory)


# ---- classes, groups and devices ----------------------------------------------------------------


def _classes(request: Request) -> Iterator[SizeChange]:
    for key, text in request.flavor.extra_specs.items():
        name = key.removeprefix(_RESOURCES)
        if name in {key, PCPU} or not _is_amount(text):
            continue
        amount = int(text)
        # The sizes of the flavor itself are other amounts.
        where = f"in the extra spec {key}" if name in _SIZED else name
        what = f"{{amount}} {{more}} {where}" if name in _SIZED else f"{{amount}} {name} {{more}}"

        def reduced(less: int, key: str = key, amount: int = amount) -> Request:
            return with_spec(request, key, str(amount - less))

        yield SizeChange(name, what, 1, amount - 1, amount, reduced)


def _groups(request: Request) -> Iterator[SizeChange]:
    for kind in kinds_of(request):
        for name, amount in kind.group.amounts.items():

            def reduced(less: int, kind: GroupKind = kind, name: str = name) -> Request:
                changed = request
                for suffix in kind.suffixes:
                    amount = kind.group.amounts[name] - less
                    changed = with_spec(changed, f"resources{suffix}:{name}", str(amount))
                return changed

            subject = f"{name} of {named(kind)}"
            text = f"{{amount}} less {name} in {named(kind)}"
            yield SizeChange(subject, text, 1, amount - 1, amount, reduced)


def kinds_of(request: Request) -> tuple[GroupKind, ...]:
    """Return the kinds of the suffixed groups of resources; none if the request is invalid."""
    if not any(key.startswith("resources") and ":" in key for key in request.flavor.extra_specs):
        return ()
    try:
        return tree_request_of(request.needs).kinds
    except InvalidInputError:
        return ()


def _devices(request: Request) -> Iterator[SizeChange]:
    asked = devices_of(request)
    for alias, _ in asked:
        mine = [count for name, count in asked if name == alias]
        # An alias that the flavor names twice has no single count that could be lowered.
        if len(mine) != 1 or not _is_amount(mine[0]):
            continue
        most = int(mine[0])

        def fewer(less: int, alias: str = alias, most: int = most) -> Request:
            left = [(name, str(most - less) if name == alias else count) for name, count in asked]
            return with_spec(request, ALIASES, ",".join(f"{name}:{count}" for name, count in left))

        text, series = f"{{amount}} fewer {{devices}} of {alias}", f"devices of {alias}"
        yield SizeChange(alias, text, 1, most - 1, most, fewer, series)


def devices_of(request: Request) -> list[tuple[str, str]]:
    """Return the aliases of devices that the flavor names, each with its count as text."""
    text = request.flavor.extra_specs.get(ALIASES, "")
    parts = [part.strip().rpartition(":") for part in text.split(",") if part.strip()]
    return [(name.strip(), count.strip()) for name, _, count in parts]


def _is_amount(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(AMOUNT_MAX))
