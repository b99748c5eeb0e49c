"""ImageMetadataFilter: the host can give the devices and the architecture that an image wants.

Nova's pre-filter `transform_image_metadata` (nova-behaviour.md 2.8).
"""

from collections.abc import Mapping
from dataclasses import replace

from berth.scheduling.rules.architectures import canonical_architecture
from berth.scheduling.rules.demanded_traits import image_properties, said, trait_filter, trait_of
from berth.scheduling.rules.rule import Filter, Query

NAME = "ImageMetadataFilter"

_PREFIXES: Mapping[str, str] = {
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
    "hw_viommu_model": "COMPUTE_VIOMMU_MODEL",
}

_OLD_VIFS: Mapping[str, str] = {
    "virtuale1000": "e1000",
    "virtuale1000e": "e1000e",
    "virtualpcnet32": "pcnet",
    "virtualsriovethernetcard": "sriov",
    "virtualvmxnet": "vmxnet",
    "virtualvmxnet3": "vmxnet3",
}
"""Names of network cards that old images have."""


def build(*, image_metadata_prefilter: bool = True) -> Filter:
    """Make the filter.

    Args:
        image_metadata_prefilter: False switches it off.
    """

    def demands(query: Query) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for key, value in image_properties(query).items() if image_metadata_prefilter else ():
            if key in _PREFIXES and value:
                trait, source = trait_of(_PREFIXES[key], _canonical(key, value)), said(key, value)
                found[trait] = f"{found[trait]} and {source}" if trait in found else source
        return found

    rule = trait_filter(NAME, demands, request=("image.properties",))
    return replace(rule, options={"image_metadata_prefilter": image_metadata_prefilter})


def _canonical(key: str, value: str) -> str:
    if key.endswith("architecture"):
        return canonical_architecture(value)
    return _OLD_VIFS.get(value.lower(), value) if key == "hw_vif_model" else value
