"""Single changes to a request that may make it fit, such as dropping a hint or an extra spec.

A change covers all that a caller must edit together: dropping the CPU policy also drops the options
that require one, and a trait is dropped from flavor and image. All filters evaluate the changed
request to find whether a change helps, so one change may satisfy several filters.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.needs import Needs
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.hardware.hw_specs import EMULATOR
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, PCPU, VCPU
from berth.scheduling.rules.reduction import CHECK_TYPE

_ALIASES: Final = "pci_passthrough:alias"
_ANY_TRAIT: Final = "berth:any_trait"
_DEVICE_POLICY: Final = "hw:pci_numa_affinity_policy"
_NODES: Final = "hw:numa_nodes"
_PAGES: Final = "hw:mem_page_size"
_PAGE_CLASSES: Final = ("small", "large", "any")
_CPU_POLICY: Final = "hw:cpu_policy"
_CPU_KEYS: Final = (
    _CPU_POLICY,
    "hw:cpu_thread_policy",
    EMULATOR,
    "hw:cpu_dedicated_mask",
    "hw:cpu_realtime",
    "hw:cpu_realtime_mask",
)
_SIZED: Final = (VCPU, PCPU, MEMORY_MB, DISK_GB)
# The suffix is that of a group; it is empty for the unsuffixed resources.
_GROUPED: Final = re.compile(r"(?:resources|trait)([^:]*):")
# A flavor may ask for any number of devices; the filter for devices proposes larger reductions.
_DEVICES_MAX: Final = 8
_HARD: Final = (GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY)
_VALUE_MAX: Final = 80
_MB_PER_GB: Final = 1024

# Extra specs with changes of their own; some filters read the others as requirements on hosts.
_OWN_CHANGES: Final = ("hw:", "resources", "trait", "group_policy", _ALIASES, _ANY_TRAIT)


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


def changes_of(
    request: Request, group: ServerGroup | None, page_sizes_kb: Collection[int]
) -> Iterator[RequestChange]:
    """Yield the changes to a request that do not depend on an amount.

    The changed request may be invalid; it then raises InvalidInputError for its needs.

    Args:
        request: the request.
        group: the server group of the request.
        page_sizes_kb: the page sizes of the hosts in KiB.
    """
    if request.availability_zone:
        yield _dropping(
            request.availability_zone,
            f"the availability zone {request.availability_zone}",
            replace(request, availability_zone=None),
        )
    for hint in request.hints:
        if hint != CHECK_TYPE:
            hints = {name: values for name, values in request.hints.items() if name != hint}
            yield _dropping(hint, f"the hint {hint}", replace(request, hints=hints))
    if group is not None and group.policy in _HARD:
        what = f"the {group.policy} of group {group.name}"
        yield _dropping(group.name, what, replace(request, group_uuid=None))
    if request.retried:
        what = "the exclusion of hosts where a build failed"
        yield _dropping("retried", what, replace(request, retried=()))
    yield from _traits(request)
    yield from _other_specs(request)
    yield from _hardware(request, page_sizes_kb)
    yield from _devices(request)
    yield from _resources(request)


def dropping_spec(request: Request, text: str) -> RequestChange | None:
    """Return the change with a text such as "without the extra spec rack"; None for other texts."""
    prefix = "without the extra spec "
    key = text.removeprefix(prefix)
    if not text.startswith(prefix) or key not in request.flavor.extra_specs:
        return None
    flavor = request.flavor
    specs = _less(flavor.extra_specs, {key})
    return RequestChange(key, text, replace(request, flavor=replace(flavor, extra_specs=specs)))


def _dropping(
    subject: str, what: str, request: Request, *, series: str = "", fallback: bool = False
) -> RequestChange:
    return RequestChange(subject, f"without {what}", request, series=series, fallback=fallback)


def _without_keys(request: Request, *keys: str) -> Request:
    """Return the request without extra specs, and without the image properties of the same name."""
    properties = {key.replace("hw:", "hw_") for key in keys}
    image = request.image
    if image is not None and not properties.isdisjoint(image.properties):
        image = replace(image, properties=_less(image.properties, properties))
    flavor = replace(request.flavor, extra_specs=_less(request.flavor.extra_specs, set(keys)))
    return replace(request, flavor=flavor, image=image)


def _less(texts: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if key not in keys}


def _with_spec(request: Request, key: str, value: str) -> Request:
    without = _without_keys(request, key)
    specs = {**without.flavor.extra_specs, key: value}
    return replace(without, flavor=replace(without.flavor, extra_specs=specs))


def _value(request: Request, key: str) -> str:
    """Return the value of an extra spec, or of the image property of the same name; or empty."""
    properties: Mapping[str, str] = request.image.properties if request.image else {}
    return request.flavor.extra_specs.get(key) or properties.get(key.replace("hw:", "hw_"), "")


def _traits(request: Request) -> Iterator[RequestChange]:
    asked = {**request.flavor.extra_specs, **(request.image.traits if request.image else {})}
    for key in sorted(key for key in asked if key.startswith("trait:")):
        name = key.removeprefix("trait:")
        is_required = asked[key] == "required"
        what = f"trait {name}" if is_required else f"the ban on trait {name}"
        yield _dropping(what, what, _without_keys(request, key))
    names = request.flavor.extra_specs.get(_ANY_TRAIT)
    if names:
        what = f"one of the traits {', '.join(sorted({one.strip() for one in names.split('|')}))}"
        yield _dropping(what, what, _without_keys(request, _ANY_TRAIT))


def _other_specs(request: Request) -> Iterator[RequestChange]:
    for key in request.flavor.extra_specs:
        if not key.startswith(_OWN_CHANGES):
            yield _dropping(key, f"the extra spec {key}", _without_keys(request, key))
    if request.image is None:
        return
    for key, value in request.image.properties.items():
        if not key.startswith("trait:"):
            what = f"{key}={value[:_VALUE_MAX]}"
            image = replace(request.image, properties=_less(request.image.properties, {key}))
            yield _dropping(what, what, replace(request, image=image), fallback=True)


def implied_demands(request: Request, needs: Needs) -> frozenset[str]:
    """Return the texts of changes that drop traits or a thread policy that other options imply.

    A caller cannot make these changes while the other options remain.
    """
    keys = {*request.flavor.extra_specs, *(request.image.traits if request.image else ())}
    required = {
        f"without trait {one}" for one in needs.traits_required if f"trait:{one}" not in keys
    }
    forbidden = {
        f"without the ban on trait {one}"
        for one in needs.traits_forbidden
        if f"trait:{one}" not in keys
    }
    policy = None if needs.topology is None else needs.topology.thread_policy
    # A trait can imply a thread policy; see `domain.hardware.hw_specs`.
    is_implied = policy is not None and not _value(request, "hw:cpu_thread_policy")
    threads = {f"without the thread policy {policy}"} if is_implied else set[str]()
    return frozenset(required | forbidden | threads)


# ---- CPUs, NUMA cells and pages -----------------------------------------------------------------


def _hardware(request: Request, page_sizes_kb: Collection[int]) -> Iterator[RequestChange]:
    if (policy := _value(request, "hw:cpu_thread_policy")) in {"require", "isolate"}:
        what = f"the thread policy {policy}"
        yield _dropping("thread policy", what, _without_keys(request, "hw:cpu_thread_policy"))
    if request.flavor.extra_specs.get(EMULATOR) == "isolate":
        what = "isolated emulator threads"
        yield _dropping("emulator threads", what, _without_keys(request, EMULATOR))
    if (policy := _value(request, _CPU_POLICY)) not in {"", "shared"}:
        what = f"the CPU policy {policy}"
        yield _dropping("CPU policy", what, _without_keys(request, *_CPU_KEYS))
    yield from _nodes(request)
    yield from _pages(request, page_sizes_kb)
    for key in ("hw:pmem", "hw:maxphysaddr_bits", "hw:virtio_packed_ring", "hw:sound_model"):
        if _value(request, key):
            yield _dropping(key, f"the extra spec {key}", _without_keys(request, key))


def _nodes(request: Request) -> Iterator[RequestChange]:
    text = _value(request, _NODES)
    specs = request.flavor.extra_specs
    lists = [key for key in specs if key.startswith(("hw:numa_cpus.", "hw:numa_mem."))]
    if not text.isdecimal():
        return
    bare = _without_keys(request, _NODES, *lists)
    for nodes in range(int(text) - 1, 0, -1):
        changed = _with_spec(bare, _NODES, str(nodes))
        yield RequestChange(
            "NUMA cells",
            f"{_NODES}={nodes} instead of {text}",
            changed,
            nodes - int(text),
            series=_NODES,
        )
    yield _dropping("NUMA cells", f"the extra spec {_NODES}", bare, series=_NODES)


def _pages(request: Request, page_sizes_kb: Collection[int]) -> Iterator[RequestChange]:
    now = _value(request, _PAGES)
    if not now:
        return
    yield _dropping("page size", "a page size", _without_keys(request, _PAGES))
    for size in (*_PAGE_CLASSES, *map(str, sorted(page_sizes_kb))):
        if size != now:
            changed = _with_spec(request, _PAGES, size)
            yield RequestChange(
                "page size",
                f"{_PAGES}={size} instead of {now}",
                changed,
                series=_PAGES,
                fallback=True,
            )


# ---- devices ------------------------------------------------------------------------------------


def _devices(request: Request) -> Iterator[RequestChange]:
    text = request.flavor.extra_specs.get(_ALIASES)
    if not text:
        return
    yield _dropping(
        "devices", f"the extra spec {_ALIASES}", _without_keys(request, _ALIASES), fallback=True
    )
    anywhere = _with_spec(request, _DEVICE_POLICY, "preferred")
    yield RequestChange("devices", "with devices anywhere on the host", anywhere)
    asked = [part.strip().rpartition(":") for part in text.split(",")]
    for alias in sorted({name.strip() for name, _, _ in asked}):
        others = [f"{name}:{count}" for name, _, count in asked if name.strip() != alias]
        mine = [count for name, _, count in asked if name.strip() == alias]
        # An alias that the flavor names twice has no single count that could be lowered.
        most = int(mine[0]) if len(mine) == 1 and mine[0].strip().isdecimal() else 0
        for less in range(1, min(most, _DEVICES_MAX + 1)):
            noun = "device" if less == 1 else "devices"
            changed = _with_spec(request, _ALIASES, ",".join([*others, f"{alias}:{most - less}"]))
            what = f"{less:,} fewer {noun} of {alias}"
            yield RequestChange(alias, what, changed, -less, series=f"devices of {alias}")
        left = _without_keys(request, _ALIASES)
        if others:
            left = _with_spec(request, _ALIASES, ",".join(others))
        series = f"devices of {alias}"
        yield _dropping(alias, f"the devices of {alias}", left, series=series)


# ---- resource classes and groups ----------------------------------------------------------------


def _resources(request: Request) -> Iterator[RequestChange]:
    keys = [key for key in request.flavor.extra_specs if _GROUPED.match(key)]
    for key in keys:
        name = key.removeprefix("resources:")
        if name != key:
            what = f"the extra spec {key}" if name in _SIZED else name
            yield _dropping(name, what, _without_keys(request, key))
    suffixes = dict.fromkeys(_suffix_of(key) for key in keys)
    for suffix in filter(None, suffixes):
        mine = [key for key in keys if _suffix_of(key) == suffix]
        # A policy for groups is invalid without groups.
        if len(suffixes) == 1:
            mine.append("group_policy")
        yield _dropping(f"group {suffix}", f"group {suffix}", _without_keys(request, *mine))


def _suffix_of(key: str) -> str:
    found = _GROUPED.match(key)
    return found[1] if found else ""


# ---- sizes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A reduction of one size of the flavor, in steps.

    `times_max` is the largest number of steps; `text` contains `{amount}`.
    """

    subject: str
    text: str
    step: int
    times_max: int
    reduced: Callable[[int], Request]

    def by(self, times: int) -> RequestChange:
        """Return the change that reduces the size by a number of steps."""
        amount = times * self.step
        text = self.text.format(amount=f"{amount:,}")
        return RequestChange(self.subject, text, self.reduced(amount), -amount)


def sizes_of(request: Request) -> Iterator[SizeChange]:
    """Yield the sizes of a request's flavor that could be smaller.

    VCPUs and memory remain above 0, as the API requires. A size that an extra spec overrides is
    left out. With NUMA cells of equal size, a step reduces all of them.
    """
    flavor, specs = request.flavor, request.flavor.extra_specs
    nodes = _value(request, _NODES)
    step = max(int(nodes), 1) if nodes.isdecimal() else 1
    if any(key.startswith(("hw:numa_cpus.", "hw:numa_mem.")) for key in specs):
        return

    def with_flavor(reduce: Callable[[Flavor, int], Flavor]) -> Callable[[int], Request]:
        return lambda amount: replace(request, flavor=reduce(flavor, amount))

    sizes = (
        (VCPU, "{amount} VCPU less", step, flavor.vcpus - 1, _fewer_vcpus),
        (MEMORY_MB, "{amount} MB less memory", step, flavor.memory_mb - 1, _less_memory),
        (DISK_GB, "{amount} GB less disk", 1, _disk_gb(flavor), _less_disk),
    )
    for name, text, unit, most, reduce in sizes:
        if f"resources:{name}" not in specs and most >= unit:
            yield SizeChange(name, text, unit, most // unit, with_flavor(reduce))


def _fewer_vcpus(flavor: Flavor, less: int) -> Flavor:
    return replace(flavor, vcpus=flavor.vcpus - less)


def _less_memory(flavor: Flavor, less_mb: int) -> Flavor:
    return replace(flavor, memory_mb=flavor.memory_mb - less_mb)


def _disk_gb(flavor: Flavor) -> int:
    return flavor.root_gb + flavor.ephemeral_gb + -(-flavor.swap_mb // _MB_PER_GB)


def _less_disk(flavor: Flavor, less_gb: int) -> Flavor:
    """Return the flavor with smaller disks: the root disk first, then the others."""
    root_gb = max(flavor.root_gb - less_gb, 0)
    less_gb -= flavor.root_gb - root_gb
    ephemeral_gb = max(flavor.ephemeral_gb - less_gb, 0)
    less_gb -= flavor.ephemeral_gb - ephemeral_gb
    swap_mb = max(flavor.swap_mb - less_gb * _MB_PER_GB, 0)
    return replace(flavor, root_gb=root_gb, ephemeral_gb=ephemeral_gb, swap_mb=swap_mb)
