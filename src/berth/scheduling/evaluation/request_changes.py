"""Single changes to a request that may make it fit, such as dropping a hint or an extra spec.

Changes of amounts are in `size_changes`.

A change covers all that a caller must edit together: dropping the CPU policy also drops the options
that require one, and a trait is dropped from flavor and image. All filters evaluate the changed
request to find whether a change helps, so one change may satisfy several filters.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.hardware.hw_specs import EMULATOR
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, PCPU, VCPU
from berth.scheduling.evaluation.request_edits import value_of, with_spec, without, without_keys
from berth.scheduling.evaluation.size_changes import (
    ALIASES,
    RequestChange,
    devices_of,
    kinds_of,
    sizes_of,
)
from berth.scheduling.granular.explain import named as groups_text
from berth.scheduling.granular.tree_request import GroupKind
from berth.scheduling.rules.reduction import CHECK_TYPE

_ANY_TRAIT: Final = "berth:any_trait"
_DEVICE_POLICY: Final = "hw:pci_numa_affinity_policy"
_OTHER_HARDWARE: Final = (
    # The policy `socket` requires a trait.
    _DEVICE_POLICY,
    "hw:pmem",
    "hw:maxphysaddr_bits",
    "hw:virtio_packed_ring",
    "hw:sound_model",
)
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
_POLICY: Final = "group_policy"
_NOUNS: Final = ("resources", "trait")
_GROUPED: Final = re.compile(r"(?:resources|trait)[^:]+:")
_EXTRA_SPEC: Final = "the extra spec "
# Subjects of relaxations that are parts of a request.
_SUBJECTS: Final = (
    *_SIZED,
    "thread policy",
    "page size",
    "emulator threads",
    "devices",
    "group_policy",
)
_OF_GROUP: Final = re.compile(r"\bgroups? \S")
_HARD: Final = (GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY)
_VALUE_MAX: Final = 80
# ImagePropertiesFilter compares the last three only if the image has one of the others.
_ARCHITECTURE: Final = (
    "hw_architecture",
    "architecture",
    "img_hv_type",
    "hypervisor_type",
    "hw_vm_mode",
    "vm_mode",
    "img_hv_requested_version",
    "hypervisor_version_requires",
    "hw_maxphysaddr_bits",
)

# Extra specs with changes of their own; some filters read the others as requirements on hosts.
_OWN_CHANGES: Final = ("hw:", "resources", "trait", "group_policy", ALIASES, _ANY_TRAIT)


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


def named(
    request: Request,
    group: ServerGroup | None,
    page_sizes_kb: Collection[int],
    relaxation: Relaxation,
) -> RequestChange | None:
    """Return the change to the request that a relaxation describes, or None if it is not one.

    Args:
        request: the refused request.
        group: the server group of the request.
        page_sizes_kb: the page sizes of the hosts in KiB.
        relaxation: the relaxation.
    """
    what = relaxation.what
    for change in changes_of(request, group, page_sizes_kb):
        if change.text == what:
            return change
    return _dropping_spec(request, what) or _size(request, relaxation)


def _dropping_spec(request: Request, text: str) -> RequestChange | None:
    """Return the change "without the extra spec rack" or "without hw_a=1 and hw_b=2"."""
    rest = text.removeprefix("without ")
    if rest == text:
        return None
    keys = [part.partition("=")[0] for part in rest.split(" and ")]
    if rest.startswith(_EXTRA_SPEC):
        keys = [rest.removeprefix(_EXTRA_SPEC)]
    elif not all("=" in part for part in rest.split(" and ")):
        return None
    image = request.image
    properties: Mapping[str, str] = image.properties if image else {}
    if not all(key in request.flavor.extra_specs or key in properties for key in keys):
        return None
    if image is not None:
        image = replace(image, properties=without(properties, keys))
    flavor = replace(request.flavor, extra_specs=without(request.flavor.extra_specs, keys))
    return RequestChange(rest, text, replace(request, flavor=flavor, image=image))


def _size(request: Request, relaxation: Relaxation) -> RequestChange | None:
    """Return the change of one size that a relaxation describes."""
    for size in sizes_of(request):
        if relaxation.subject == size.subject and relaxation.change:
            times = -relaxation.change // size.step
            if times > size.times_max or not size.allows(times * size.step):
                continue
            change = size.by(times)
            if change.text == relaxation.what:
                return change
    return None


def concerns_request(request: Request, relaxation: Relaxation) -> bool:
    """Return whether the subject of a relaxation is an amount or a demand of the request.

    All other relaxations concern hosts or the policy, such as a limit that could be raised.
    """
    subject = relaxation.subject
    return (
        bool(relaxation.parts)
        or subject in _SUBJECTS
        or subject.startswith(("trait ", "the ban on trait ", "one of the traits "))
        or bool(_OF_GROUP.search(subject))
        or f"resources:{subject}" in request.flavor.extra_specs
        or any(subject == alias for alias, _ in devices_of(request))
    )


def _dropping(
    subject: str, what: str, request: Request, *, series: str = "", fallback: bool = False
) -> RequestChange:
    return RequestChange(subject, f"without {what}", request, series=series, fallback=fallback)


def _traits(request: Request) -> Iterator[RequestChange]:
    asked = {**request.flavor.extra_specs, **(request.image.traits if request.image else {})}
    for key in sorted(key for key in asked if key.startswith("trait:")):
        name = key.removeprefix("trait:")
        is_required = asked[key] == "required"
        what = f"trait {name}" if is_required else f"the ban on trait {name}"
        yield _dropping(what, what, without_keys(request, key))
    names = request.flavor.extra_specs.get(_ANY_TRAIT)
    if names:
        what = f"one of the traits {', '.join(sorted({one.strip() for one in names.split('|')}))}"
        yield _dropping(what, what, without_keys(request, _ANY_TRAIT))


def _other_specs(request: Request) -> Iterator[RequestChange]:
    for key in request.flavor.extra_specs:
        if not key.startswith(_OWN_CHANGES):
            yield _dropping(key, f"the extra spec {key}", without_keys(request, key))
    if request.image is None:
        return
    if any(request.image.properties.get(key) for key in _ARCHITECTURE[:6]):
        properties = without(request.image.properties, _ARCHITECTURE)
        image = replace(request.image, properties=properties)
        what = "the image's architecture and mode"
        yield _dropping("image", what, replace(request, image=image))
    for key, value in request.image.properties.items():
        if not key.startswith("trait:"):
            what = f"{key}={value[:_VALUE_MAX]}"
            image = replace(request.image, properties=without(request.image.properties, {key}))
            yield _dropping(what, what, replace(request, image=image), fallback=True)


# ---- CPUs, NUMA cells and pages -----------------------------------------------------------------


def _hardware(request: Request, page_sizes_kb: Collection[int]) -> Iterator[RequestChange]:
    if (policy := value_of(request, "hw:cpu_thread_policy")) in {"require", "isolate"}:
        what = f"the thread policy {policy}"
        yield _dropping("thread policy", what, without_keys(request, "hw:cpu_thread_policy"))
    if request.flavor.extra_specs.get(EMULATOR) == "isolate":
        what = "isolated emulator threads"
        yield _dropping("emulator threads", what, without_keys(request, EMULATOR))
    if (policy := value_of(request, _CPU_POLICY)) not in {"", "shared"}:
        what = f"the CPU policy {policy}"
        yield _dropping("CPU policy", what, without_keys(request, *_CPU_KEYS))
    yield from _nodes(request)
    yield from _pages(request, page_sizes_kb)
    for key in _OTHER_HARDWARE:
        if value_of(request, key):
            yield _dropping(key, f"the extra spec {key}", without_keys(request, key))


def _nodes(request: Request) -> Iterator[RequestChange]:
    text = value_of(request, _NODES)
    specs = request.flavor.extra_specs
    lists = [key for key in specs if key.startswith(("hw:numa_cpus.", "hw:numa_mem."))]
    if not text.isdecimal():
        return
    bare = without_keys(request, _NODES, *lists)
    for nodes in range(int(text) - 1, 0, -1):
        changed = with_spec(bare, _NODES, str(nodes))
        yield RequestChange(
            "NUMA cells",
            f"{_NODES}={nodes} instead of {text}",
            changed,
            nodes - int(text),
            series=_NODES,
        )
    yield _dropping("NUMA cells", f"the extra spec {_NODES}", bare, series=_NODES)


def _pages(request: Request, page_sizes_kb: Collection[int]) -> Iterator[RequestChange]:
    now = value_of(request, _PAGES)
    if not now:
        return
    yield _dropping("page size", "a page size", without_keys(request, _PAGES))
    for size in (*_PAGE_CLASSES, *map(str, sorted(page_sizes_kb))):
        if size != now:
            changed = with_spec(request, _PAGES, size)
            yield RequestChange(
                "page size",
                f"{_PAGES}={size} instead of {now}",
                changed,
                series=_PAGES,
                fallback=True,
            )


# ---- devices ------------------------------------------------------------------------------------


def _devices(request: Request) -> Iterator[RequestChange]:
    asked = devices_of(request)
    if not asked:
        return
    yield _dropping(
        "devices", f"the extra spec {ALIASES}", without_keys(request, ALIASES), fallback=True
    )
    anywhere = with_spec(request, _DEVICE_POLICY, "preferred")
    yield RequestChange("devices", "with devices anywhere on the host", anywhere)
    for alias in sorted({name for name, _ in asked}):
        others = [f"{name}:{count}" for name, count in asked if name != alias]
        left = without_keys(request, ALIASES)
        if others:
            left = with_spec(request, ALIASES, ",".join(others))
        series = f"devices of {alias}"
        yield _dropping(alias, f"the devices of {alias}", left, series=series)


# ---- resource classes and groups ----------------------------------------------------------------


def _resources(request: Request) -> Iterator[RequestChange]:
    for key in request.flavor.extra_specs:
        name = key.removeprefix("resources:")
        if name != key:
            what = f"the extra spec {key}" if name in _SIZED else name
            # Without dedicated CPUs, the options for them are invalid.
            options = _CPU_KEYS if name == PCPU else ()
            yield _dropping(name, what, without_keys(request, key, *options))
    kinds = kinds_of(request)
    for kind in kinds:
        yield from _fewer_groups(request, kind)
        yield from _group_traits(request, kind)
    if sum(kind.count for kind in kinds) > 1 and request.flavor.extra_specs.get(_POLICY) != "none":
        yield RequestChange(_POLICY, f"{_POLICY} none", with_spec(request, _POLICY, "none"))


def _fewer_groups(request: Request, kind: GroupKind) -> Iterator[RequestChange]:
    """Yield the changes that drop 1, 2, ... groups of a kind."""
    specs, subject = request.flavor.extra_specs, groups_text(kind)
    for dropped in range(1, kind.count + 1):
        gone = {f"{noun}{one}" for one in kind.suffixes[-dropped:] for noun in _NOUNS}
        keys = [key for key in specs if key.partition(":")[0] in gone]
        left = without_keys(request, *keys)
        if not any(_GROUPED.match(key) for key in left.flavor.extra_specs):
            # A policy for groups is invalid without groups.
            left = without_keys(left, _POLICY)
        what = f"without {subject}" if dropped == kind.count else f"{dropped} fewer of {subject}"
        yield RequestChange(subject, what, left, -dropped, series=subject)


def _group_traits(request: Request, kind: GroupKind) -> Iterator[RequestChange]:
    for name in sorted(kind.group.traits_required | kind.group.traits_forbidden):
        is_required = name in kind.group.traits_required
        what = f"trait {name}" if is_required else f"the ban on trait {name}"
        keys = [f"trait{suffix}:{name}" for suffix in kind.suffixes]
        what += f" in {groups_text(kind)}"
        yield _dropping(what, what, without_keys(request, *keys))
