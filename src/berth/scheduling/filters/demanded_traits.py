"""Filters that turn properties of a flavor or an image into traits that a host must have.

They do what Nova's request pre-filters do before Nova queries Placement (nova-behaviour.md 2.8): a
property such as `hw_disk_bus=virtio` demands the trait COMPUTE_STORAGE_BUS_VIRTIO. Traits are named
as in os-traits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.errors import InvalidInputError
from berth.scheduling.rules.attributes import canonical_architecture
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable

Demands = Callable[[Query], Mapping[str, str]]
"""(query) -> the traits that a host must have, each with its source (`hw_disk_bus=virtio`)."""

# oslo.utils reads the same words as true, in upper or lower case.
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_SHOWN_MAX = 80
_IMAGE = ("image.properties",)
_FLAVOR_AND_IMAGE = ("flavor.extra_specs", "image.properties")

_ENCRYPTION = "COMPUTE_EPHEMERAL_ENCRYPTION"
_ENCRYPTION_FORMAT = "ephemeral_encryption_format"
_ENCRYPTION_FORMATS = ("plain", "luks", "luksv2")

# Prefixes of traits by image property; the value of the property is the rest of the name.
_PREFIXES: Mapping[str, str] = {
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
    "hw_viommu_model": "COMPUTE_VIOMMU_MODEL",
}

# Old images name network cards as VMware does; Nova also translates these names.
_OLD_VIFS: Mapping[str, str] = {
    "virtuale1000": "e1000",
    "virtuale1000e": "e1000e",
    "virtualpcnet32": "pcnet",
    "virtualsriovethernetcard": "sriov",
    "virtualvmxnet": "vmxnet",
    "virtualvmxnet3": "vmxnet3",
}


# ---- the filters ----------------------------------------------------------------------------


def build_image_type_support(*, query_placement_for_image_type_support: bool = True) -> Filter:
    """Build ImageTypeSupportFilter: the host supports the image's disk format.

    The image property `disk_format` demands the trait COMPUTE_IMAGE_TYPE_<FORMAT>, as in Nova's
    pre-filter `require_image_type_support`.

    Args:
        query_placement_for_image_type_support: False turns the filter off.
    """
    switch = query_placement_for_image_type_support

    def demands(query: Query) -> Mapping[str, str]:
        value = image_properties(query).get("disk_format", "")
        if not value or not switch:
            return {}
        return {trait_of("COMPUTE_IMAGE_TYPE", value): property_text("disk_format", value)}

    rule = trait_filter("ImageTypeSupportFilter", demands, request=_IMAGE)
    return replace(rule, options={"query_placement_for_image_type_support": switch})


def build_image_metadata(*, image_metadata_prefilter: bool = True) -> Filter:
    """Build ImageMetadataFilter: the host supports the image's devices and architecture.

    The filter does what Nova's pre-filter `transform_image_metadata` does.

    Args:
        image_metadata_prefilter: False turns the filter off.
    """

    def demands(query: Query) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for key, value in image_properties(query).items() if image_metadata_prefilter else ():
            if key in _PREFIXES and value:
                trait, source = (
                    trait_of(_PREFIXES[key], _canonical(key, value)),
                    property_text(key, value),
                )
                found[trait] = f"{found[trait]} and {source}" if trait in found else source
        return found

    rule = trait_filter("ImageMetadataFilter", demands, request=_IMAGE)
    return replace(rule, options={"image_metadata_prefilter": image_metadata_prefilter})


def _canonical(key: str, value: str) -> str:
    if key.endswith("architecture"):
        return canonical_architecture(value)
    return _OLD_VIFS.get(value.lower(), value) if key == "hw_vif_model" else value


def build_packed_virtqueue() -> Filter:
    """Build PackedVirtqueueFilter: the host has packed virtqueues if flavor or image request them.

    The filter does what Nova's pre-filter `packed_virtqueue_filter` does, and has no options. It
    raises InvalidInputError if flavor and image contradict each other.
    """

    def demands(query: Query) -> Mapping[str, str]:
        asked, source = is_asked_by_either(query, "virtio_packed_ring")
        return {"COMPUTE_NET_VIRTIO_PACKED": source} if asked else {}

    return trait_filter("PackedVirtqueueFilter", demands, request=_FLAVOR_AND_IMAGE)


def build_virtio_sound() -> Filter:
    """Build VirtioSoundFilter: the host has virtio sound devices if flavor or image request one.

    The filter does what Nova's pre-filter `virtio_sound_filter` does, and has no options. It raises
    InvalidInputError if flavor and image contradict each other.
    """

    def demands(query: Query) -> Mapping[str, str]:
        model, source = asked_by_both(query, "sound_model")
        return {"COMPUTE_SOUND_MODEL_VIRTIO": source} if model == "virtio" else {}

    return trait_filter("VirtioSoundFilter", demands, request=_FLAVOR_AND_IMAGE)


def build_ephemeral_encryption() -> Filter:
    """Build EphemeralEncryptionFilter: the host can encrypt local disks if a request demands it.

    The flavor or the image demands it, and may name a format. The filter does what Nova's
    pre-filter `ephemeral_encryption_filter` does, and has no options. It raises InvalidInputError
    if flavor and image contradict each other, or if the format is unknown.
    """

    def demands(query: Query) -> Mapping[str, str]:
        asked, source = is_asked_by_either(query, "ephemeral_encryption")
        if not asked:
            return {}
        form, of_form = asked_by_both(query, _ENCRYPTION_FORMAT)
        if not form:
            return {_ENCRYPTION: source}
        if form not in _ENCRYPTION_FORMATS:
            reason = f"{form[:_SHOWN_MAX]!r} must be one of {', '.join(_ENCRYPTION_FORMATS)}"
            # The error names the extra spec or the image property that contains the value.
            raise InvalidInputError(of_form.partition("=")[0], reason)
        return {_ENCRYPTION: source, trait_of(_ENCRYPTION, form): of_form}

    return trait_filter("EphemeralEncryptionFilter", demands, request=_FLAVOR_AND_IMAGE)


def trait_filter(name: str, demands: Demands, *, request: tuple[str, ...]) -> Filter:
    """Build a filter that keeps the hosts with every demanded trait.

    Args:
        name: the filter's name.
        demands: returns the traits that a query demands; empty if the filter does not apply.
        request: the parts of the request that `demands` reads, as in `Reads`.
    """

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        traits = demands(query)
        if not traits:
            return None
        kept = np.ones(count_of(rows), dtype=np.bool_)
        for trait in traits:
            kept &= hosts.traits.has(trait, rows)
        return kept

    def why(hosts: HostTable, query: Query, row: int) -> str:
        mine = hosts.traits.get(row)
        asked = ((one, source) for one, source in demands(query).items() if one not in mine)
        return "; ".join(f"it lacks {trait}, which {source} demands" for trait, source in asked)

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        traits = demands(query)
        lacking = {trait: ~hosts.traits.has(trait, rows) for trait in traits}
        failed = np.sum(list(lacking.values()), axis=0)
        found: list[Relaxation] = []
        for trait, lacks in lacking.items():
            # A relaxation is a single change, so it helps only hosts that lack nothing else.
            winners = rows[lacks & (failed == 1)]
            found.extend(without(name, traits[trait], traits[trait], hosts, winners))
        return found

    return Filter(
        name=name,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(request=request, columns=("traits",)),
        # Placements change no traits, so one verdict serves all instances of a request.
        once_per_request=True,
    )


def image_properties(query: Query) -> Mapping[str, str]:
    """Return the properties of the request's image; empty if it has no image."""
    image = query.request.image
    return {} if image is None else image.properties


def property_text(key: str, value: str) -> str:
    """Return a property as `key=value`, with the value cut to 80 characters."""
    return f"{key}={value[:_SHOWN_MAX]}"


def trait_of(prefix: str, value: str) -> str:
    """Return the name of a value's trait as in os-traits: `ne2k-pci` becomes PREFIX_NE2K_PCI."""
    return f"{prefix}_{value.replace('-', '_').upper()}"


def asked_by_both(query: Query, key: str) -> tuple[str, str]:
    """Return the value that flavor or image set for a key, and the properties that set it.

    Args:
        query: the query whose flavor and image are read.
        key: the key without its prefix (`sound_model`).

    Returns:
        The value, empty if neither gives one, and its sources as text (`hw:KEY=x and hw_KEY=x`).

    Raises:
        InvalidInputError: the flavor and the image give different values.
    """
    given = _given_values(query, key)
    values = {value for _, value in given if value}
    if len(values) > 1:
        raise _conflict(given)
    sources = [property_text(name, value) for name, value in given if value]
    return next(iter(values), ""), " and ".join(sources)


def is_asked_by_either(query: Query, key: str) -> tuple[bool, str]:
    """Return whether the flavor or the image requests a feature, and the properties that say so.

    Args:
        query: the query whose flavor and image are read.
        key: the key without its prefix (`virtio_packed_ring`).

    Returns:
        Whether the feature is requested, and as text the properties that set it, on or off.

    Raises:
        InvalidInputError: one requests the feature and the other rules it out.
    """
    given = _given_values(query, key)
    answers = {_is_true(value) for _, value in given}
    if len(answers) > 1:
        raise _conflict(given)
    return answers == {True}, " and ".join(property_text(name, value) for name, value in given)


def _given_values(query: Query, key: str) -> list[tuple[str, str]]:
    """Return the name and value of a key's extra spec and image property, as far as they exist."""
    both = (
        (f"hw:{key}", query.request.flavor.extra_specs.get(f"hw:{key}")),
        (f"hw_{key}", image_properties(query).get(f"hw_{key}")),
    )
    return [(name, value) for name, value in both if value is not None]


def _is_true(text: str) -> bool:
    return text.strip().lower() in _TRUE


def _conflict(given: Sequence[tuple[str, str]]) -> InvalidInputError:
    (spec, by_flavor), (name, by_image) = given
    return InvalidInputError(
        f"flavor.extra_specs.{spec}",
        f"is {by_flavor[:_SHOWN_MAX]!r}, but the image has {property_text(name, by_image)}; "
        "make them equal, or leave one out",
    )
