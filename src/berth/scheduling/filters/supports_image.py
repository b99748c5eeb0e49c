"""ImagePropertiesFilter: the host can run the image's architecture, hypervisor and VM mode."""

import re
from collections.abc import Mapping, Sequence

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.flavor import Image
from berth.scheduling.rules.attributes import canonical_architecture, profile_value
from berth.scheduling.rules.operators import matches
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable
from berth.tables.host.profiles import Profile

NAME = "ImagePropertiesFilter"

# The current name for each old name, as in Nova.
_HYPERVISORS: Mapping[str, str] = {"xapi": "xen", "powervm": "phyp"}
_MODES: Mapping[str, str] = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}

_NO_IMAGE = Image("")

_VERSION = "img_hv_requested_version"
_BITS = "hw_maxphysaddr_bits"
_COMPARISON = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*([0-9]{1,9}(?:\.[0-9]{1,9}){0,9})\s*")


def build(*, image_properties_default_architecture: str = "") -> Filter:
    """Build the filter (nova-behaviour.md 2.6).

    A hypervisor version or a number of address bits is compared only if the image also has an
    architecture, hypervisor or mode; a host that does not report its address bits passes.

    Args:
        image_properties_default_architecture: the architecture of images that name none; empty for
            no default.
    """

    def wanted(query: Query) -> tuple[tuple[str, ...], str]:
        image = query.request.image or _NO_IMAGE
        return _wanted(image.properties, image_properties_default_architecture)

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        asked, version = wanted(query)
        if not asked:
            return None
        bits = query.request.image.properties.get(_BITS, "") if query.request.image else ""

        def supports(profile: Profile) -> bool:
            return (
                any(all(name in one for name in asked) for one in profile.supported_instances)
                and _satisfies(profile.hypervisor_version, version)
                and _has_bits(profile, bits)
            )

        return hosts.profiles.mask(hosts.profile[rows], supports)

    def why(hosts: HostTable, query: Query, row: int) -> str:
        asked, version = wanted(query)
        host = hosts.host(row)
        runs = ", ".join("/".join(one) for one in host.supported_instances) or "nothing"
        bits = query.request.image.properties.get(_BITS) if query.request.image else None
        also = f" and {bits} address bits" if bits else ""
        return (
            f"the image asks for {' '.join([*asked, version]).strip()}{also}; "
            f"the host runs {runs}, version {version_text(host.hypervisor_version)}"
        )

    return Filter(
        name=NAME,
        keep=keep,
        why=why,
        relax=_relax,
        reads=Reads(request=("image.properties",), columns=("host",)),
        once_per_request=True,
        # A rebuild may change the image.
        run_on_rebuild=True,
    )


def _wanted(properties: Mapping[str, str], default: str) -> tuple[tuple[str, ...], str]:
    """Return the names that one supported instance type must contain, and the version predicate."""
    architecture = properties.get("hw_architecture") or properties.get("architecture") or default
    hypervisor = properties.get("img_hv_type") or properties.get("hypervisor_type") or ""
    mode = properties.get("hw_vm_mode") or properties.get("vm_mode") or ""
    names = (
        canonical_architecture(architecture),
        _canonical(hypervisor, _HYPERVISORS),
        _canonical(mode, _MODES),
    )
    version = properties.get(_VERSION) or properties.get("hypervisor_version_requires") or ""
    return tuple(name for name in names if name), version


def _canonical(name: str, aliases: Mapping[str, str]) -> str:
    lowered = name.lower()
    return aliases.get(lowered, lowered)


def version_text(version: int) -> str:
    """Return a hypervisor version number, three digits per part, as text: 6002001 is 6.2.1."""
    parts: list[str] = []
    while version > 0:
        version, part = divmod(version, 1000)
        parts.insert(0, str(part))
    return ".".join(parts) or "0"


def _satisfies(version: int, predicate: str) -> bool:
    """Return whether a version meets a predicate such as `>=6.0,<7`.

    A host without a version passes, as in Nova; a predicate that cannot be parsed is never met.
    """
    if version <= 0 or not predicate.strip():
        return True
    have = _parts(version_text(version))
    for text in predicate.strip().strip("()").split(","):
        found = _COMPARISON.fullmatch(text)
        if found is None or not _compare(have, found[1], _parts(found[2])):
            return False
    return True


def _has_bits(profile: Profile, wanted: str) -> bool:
    have = profile_value(profile, ("cpu_info", "maxphysaddr", "bits")) if wanted else None
    return have is None or matches(have, f">= {wanted}")


def _parts(text: str) -> tuple[int, ...]:
    parts = [int(part) for part in text.split(".")]
    # Without trailing zeros, 6.0 equals 6.
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def _compare(have: tuple[int, ...], sign: str, want: tuple[int, ...]) -> bool:
    verdicts = {
        "<": have < want,
        "<=": have <= want,
        "==": have == want,
        "!=": have != want,
        ">=": have >= want,
        ">": have > want,
    }
    return verdicts[sign]


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    return without(NAME, "image", "the image's architecture and mode", hosts, rows)
