"""PCI devices: pools of equal devices on hosts, aliases for device types, and guests' requests.

Source: nova-behaviour.md 6.3.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import AMOUNT_MAX

POOLS_MAX = 4096
"""Maximum number of device pools of one host."""

_ALIAS_KEY = "pci_passthrough:alias"
_DEVICES_MAX = 256
_ID = re.compile(r"[0-9A-Fa-f]{4}")
_TRUE = ("1", "t", "true", "on", "y", "yes")
_FALSE = ("0", "f", "false", "off", "n", "no")

_E = TypeVar("_E", bound=StrEnum)


class DeviceType(StrEnum):
    """The type of a PCI function, under Nova's names."""

    STANDARD = "type-PCI"
    PHYSICAL = "type-PF"
    VIRTUAL = "type-VF"
    VDPA = "vdpa"


class NumaPolicy(StrEnum):
    """The required proximity of a device to the guest's NUMA cells."""

    REQUIRED = "required"
    """On one of the guest's own NUMA cells."""
    LEGACY = "legacy"
    """On one of the guest's NUMA cells, or on a NUMA cell that the host does not report."""
    PREFERRED = "preferred"
    """Anywhere, close devices first."""
    SOCKET = "socket"
    """On a NUMA cell in the same socket as one of the guest's NUMA cells."""


@dataclass(frozen=True, slots=True)
class PciPool:
    """Equal PCI devices of a host; `count` includes those in use.

    `numa_node` is the id of the closest NUMA cell; None if the host does not report it. `address`
    is the address of the device, or of the physical function of virtual functions: while a virtual
    function is in use its physical function is unavailable, and vice versa. `tags` are set by the
    operator (`physical_network`, `remote_managed`, ...).
    """

    vendor_id: str
    product_id: str
    dev_type: DeviceType = DeviceType.STANDARD
    numa_node: int | None = None
    address: str = ""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    count: int = 1

    def __post_init__(self) -> None:
        """Reject a count out of range.

        Raises:
            InvalidInputError: the count is out of range.
        """
        if not 0 <= self.count <= AMOUNT_MAX:
            raise InvalidInputError(
                "pci_pools", f"count {self.count} must be between 0 and {AMOUNT_MAX}"
            )

    @property
    def key(self) -> str:
        """The string that identifies the pool on its host."""
        # The key does not contain the count: instances refer to pools by key, and a device that is
        # added or removed must not invalidate these references.
        tags = ",".join(f"{name}={value}" for name, value in sorted(self.tags.items()))
        node = "" if self.numa_node is None else self.numa_node
        parts = (self.vendor_id, self.product_id, self.dev_type, node, self.address, tags)
        return "/".join(str(part) for part in parts)


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """A guest's request for `count` devices of one alias.

    `numa_policy` is the policy that flavor or image sets for all devices; None if neither does, and
    the policy of the alias then applies.
    """

    alias: str
    count: int
    numa_policy: NumaPolicy | None = None


@dataclass(frozen=True, slots=True)
class PciSpec:
    """One device type that an alias matches; None matches any type or migratability."""

    vendor_id: str
    product_id: str
    dev_type: DeviceType | None = None
    live_migratable: bool | None = None


@dataclass(frozen=True, slots=True)
class PciAlias:
    """A name for one or more device types; a device that matches any of `specs` is suitable."""

    name: str
    specs: tuple[PciSpec, ...]
    numa_policy: NumaPolicy = NumaPolicy.LEGACY


def check_pools(pools: Sequence[PciPool]) -> None:
    """Reject PCI pools that cannot all be on one host.

    Raises:
        InvalidInputError: there are too many pools, or two have the same key.
    """
    if len(pools) > POOLS_MAX:
        raise InvalidInputError(
            "pci_pools", f"{len(pools)} pools are too many; report at most {POOLS_MAX}"
        )
    keys = [pool.key for pool in pools]
    if len(set(keys)) < len(keys):
        # The search is quadratic, but happens only before an error.
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidInputError(
            "pci_pools", f"{twice} is listed twice; add up the counts in one entry"
        )


def device_needs(
    extra_specs: Mapping[str, str], numa_policy: NumaPolicy | None
) -> tuple[DeviceNeed, ...]:
    """Return the requests in `pci_passthrough:alias` (`gpu:2,nic:1`), one per part; empty if unset.

    Args:
        extra_specs: the extra specs of the flavor.
        numa_policy: the policy for all devices; None means that of each device's alias.

    Raises:
        InvalidInputError: a part is not ALIAS:COUNT, or too many devices are requested.
    """
    text = extra_specs.get(_ALIAS_KEY)
    if text is None:
        return ()
    needs: list[DeviceNeed] = []
    for part in text.split(","):
        name, colon, count = (piece.strip() for piece in part.partition(":"))
        # The length is checked before `int`, which is slow for very long strings.
        short = count.isascii() and count.isdigit() and len(count) <= len(str(_DEVICES_MAX))
        if not name or not colon or not short or not 1 <= int(count) <= _DEVICES_MAX:
            raise InvalidInputError(
                _ALIAS_KEY,
                f"{part[:80]!r} must be ALIAS:COUNT with a count between 1 and "
                f"{_DEVICES_MAX}; separate several requests with commas",
            )
        # Parts with the same alias stay separate requests, because Nova serves each on its own.
        needs.append(DeviceNeed(name, int(count), numa_policy))
    if sum(need.count for need in needs) > _DEVICES_MAX:
        raise InvalidInputError(
            _ALIAS_KEY, f"requests more than {_DEVICES_MAX} devices; reduce the counts"
        )
    return tuple(needs)


def aliases_of(tables: Iterable[Mapping[str, str]]) -> tuple[PciAlias, ...]:
    """Return the PCI aliases of a policy, sorted by name; tables with equal names are alternatives.

    Each table has `name`, `vendor_id` and `product_id`, and may have `device_type`, `numa_policy`
    and `live_migratable`, with Nova's values.

    Raises:
        ValueError: a table is invalid or contradicts an earlier one; the error names it.
    """
    found: dict[str, PciAlias] = {}
    for index, table in enumerate(tables):
        alias = _alias(table, f"pci_aliases[{index}]")
        other = found.get(alias.name)
        if other is None:
            found[alias.name] = alias
            continue
        if other.numa_policy is not alias.numa_policy:
            raise ValueError(
                f"pci_aliases[{index}]: {alias.name} has a different numa_policy in an earlier "
                "table; make the two equal"
            )
        if other.specs[0].dev_type is not alias.specs[0].dev_type:
            raise ValueError(
                f"pci_aliases[{index}]: {alias.name} has a different device_type in an earlier "
                "table; make the two equal"
            )
        found[alias.name] = PciAlias(alias.name, other.specs + alias.specs, alias.numa_policy)
    return tuple(found[name] for name in sorted(found))


def _alias(table: Mapping[str, str], where: str) -> PciAlias:
    known = {"name", "vendor_id", "product_id", "device_type", "numa_policy", "live_migratable"}
    for key in sorted(table.keys() - known):
        raise ValueError(f"{where}.{key}: unknown key; valid keys are {', '.join(sorted(known))}")
    for key in ("name", "vendor_id", "product_id"):
        if not table.get(key, "").strip():
            raise ValueError(f"{where}.{key}: is required; add it")
    for key in ("vendor_id", "product_id"):
        if _ID.fullmatch(table[key]) is None:
            raise ValueError(f"{where}.{key}: {table[key][:80]!r} must be four hex digits")
    dev_type = table.get("device_type")
    live = table.get("live_migratable")
    spec = PciSpec(
        vendor_id=table["vendor_id"].lower(),
        product_id=table["product_id"].lower(),
        dev_type=None
        if dev_type is None
        else _one_of(DeviceType, dev_type, f"{where}.device_type"),
        live_migratable=None if live is None else _boolean(live, f"{where}.live_migratable"),
    )
    policy = table.get("numa_policy") or NumaPolicy.LEGACY
    numa_policy = _one_of(NumaPolicy, policy, f"{where}.numa_policy")
    return PciAlias(table["name"].strip(), (spec,), numa_policy)


def _one_of(kind: type[_E], text: str, where: str) -> _E:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{where}: {text[:80]!r} must be one of {', '.join(kind)}") from None


def _boolean(text: str, where: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE or lowered in _FALSE:
        return lowered in _TRUE
    raise ValueError(f"{where}: {text[:80]!r} must be 'true' or 'false'")
