"""Warnings about extra specs of flavors that contradict each other, never hold, or are not read.

A spec that no rule reads has no effect: the instance may land on a host that cannot provide the
feature. Nova behaves the same way (nova-behaviour.md 2.6, 2.8).
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Final

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.needs import Needs
from berth.domain.inventory.resource_group import GROUP_POLICY
from berth.scheduling.lint.lint_warning import LintWarning
from berth.scheduling.rules.operators import contradict, flaw_of, is_mistaken

_CAPABILITIES: Final = "ComputeCapabilitiesFilter"
_AGGREGATES: Final = "AggregateInstanceExtraSpecsFilter"
_ADDRESS_BITS: Final = "hw:maxphysaddr_bits"
_SCOPES: Final = {"capabilities": _CAPABILITIES, "aggregate_instance_extra_specs": _AGGREGATES}
# The filter that reads each extra spec.
_READERS: Final[Mapping[str, str]] = {
    _ADDRESS_BITS: _CAPABILITIES,
    "trust:trusted_host": "TrustedFilter",
    "hw:virtio_packed_ring": "PackedVirtqueueFilter",
    "hw:ephemeral_encryption": "EphemeralEncryptionFilter",
    "hw:sound_model": "VirtioSoundFilter",
}

# For each filter that reads needs: a noun for what it reads, and whether a flavor needs that.
_NEEDS_READERS: Final[Mapping[str, tuple[str, Callable[[Needs], bool]]]] = {
    "TraitsFilter": (
        "traits",
        lambda needs: bool(needs.traits_required or needs.traits_forbidden or needs.traits_any),
    ),
    "GranularGroupsFilter": ("groups of resources", lambda needs: bool(needs.groups)),
    "NUMATopologyFilter": ("a NUMA topology", lambda needs: needs.topology is not None),
    "PciPassthroughFilter": ("PCI devices", lambda needs: bool(needs.devices)),
}

# Prefixes of extra specs that Nova turns into Placement queries and no rule of Berth reads.
_READ_BY_NONE: Final = (
    "accel:device_profile",
    "hw:maxphysaddr_mode",
    "hw:mem_encryption",
    "hw:stateless_firmware",
    "hw:tpm_",
    "os:secure_boot",
)


def lint_flavor(flavor: Flavor, needs: Needs, filters: frozenset[str]) -> Iterator[LintWarning]:
    """Yield a warning for each questionable extra spec of a flavor under a policy.

    Args:
        flavor: the flavor.
        needs: the needs of its instances.
        filters: the names of the policy's filters.
    """
    where = f"flavor {flavor.name}"
    warnings = (
        *_unread(flavor.extra_specs, needs, filters),
        *_never_holding(flavor.extra_specs, filters),
        *_contradicting(flavor.extra_specs, needs, filters),
        *_without_scope(flavor.extra_specs, filters),
    )
    yield from (LintWarning(where, text) for text in warnings)


def _unread(specs: Mapping[str, str], needs: Needs, filters: frozenset[str]) -> Iterator[str]:
    for name, (what, is_asked) in _NEEDS_READERS.items():
        if is_asked(needs) and name not in filters:
            yield f"asks for {what}, which only {name} reads; add {name} to the policy"
    for key in specs:
        scope, colon, _ = key.partition(":")
        reader = _READERS.get(key) or (_SCOPES.get(scope) if colon else None)
        if reader is not None and reader not in filters:
            yield f"has {key}, which only {reader} reads; add {reader} to the policy"
        if key.startswith(_READ_BY_NONE):
            yield (
                f"has {key}, which no rule reads, so any host is accepted; require a trait of the "
                "hosts that support it"
            )


def _never_holding(specs: Mapping[str, str], filters: frozenset[str]) -> Iterator[str]:
    for key, requirement in specs.items():
        if not _is_compared(key, filters):
            continue
        # The filter reads the address bits as a minimum, without an operator in the spec.
        flaw = flaw_of(f">= {requirement}" if key == _ADDRESS_BITS else requirement)
        if flaw:
            yield f"can never be placed: {key} = {requirement!r} is invalid ({flaw}); correct it"
        elif is_mistaken(requirement):
            yield (
                f"{key} = {requirement!r} does not begin with a valid operator, so the whole text "
                "is compared; to use an operator, write a space after it"
            )


def _is_compared(key: str, filters: frozenset[str]) -> bool:
    """Return whether a filter compares an extra spec with values, operators included."""
    scope, colon, _ = key.partition(":")
    if not colon:
        return not filters.isdisjoint(_SCOPES.values())
    return (_CAPABILITIES if key == _ADDRESS_BITS else _SCOPES.get(scope)) in filters


def _contradicting(
    specs: Mapping[str, str], needs: Needs, filters: frozenset[str]
) -> Iterator[str]:
    # Specs contradict each other only if they are compared with the same single value of a host:
    # the words in the metadata of its aggregates may each meet another spec.
    compared = [
        (path, key, requirement)
        for key, requirement in specs.items()
        if _CAPABILITIES in filters and (path := _path_of(key)) and not flaw_of(requirement)
    ]
    for (path, key, one), (also, other_key, other) in combinations(compared, 2):
        if path == also and contradict(one, other):
            yield (
                f"can never be placed: {key} = {one!r} and {other_key} = {other!r} contradict each "
                "other; correct one of them"
            )
    for names in needs.traits_any:
        if names and names <= needs.traits_forbidden:
            yield (
                f"can never be placed: one of the traits {', '.join(sorted(names))} is required, "
                "and each of them is forbidden"
            )


def _path_of(key: str) -> tuple[str, ...]:
    """Return the attribute of a host that an extra spec names; empty if it names none."""
    path = key.split(":")
    if path[0] == "capabilities" and len(path) > 1:
        path = path[1:]
    elif len(path) > 1:
        return ()
    return tuple(path[1:] if path[0] == "stats" and len(path) > 1 else path)


def _without_scope(specs: Mapping[str, str], filters: frozenset[str]) -> Iterator[str]:
    for key in specs if _AGGREGATES in filters else ():
        if key == GROUP_POLICY:
            yield (
                f"{_AGGREGATES} also reads {key}, because it has no scope, and removes hosts whose "
                "aggregates lack that key; add it to the aggregates of the flavor's hosts"
            )
        elif ":" not in key and _CAPABILITIES in filters:
            yield (
                f"{key} has no scope, so {_CAPABILITIES} and {_AGGREGATES} both read it, and hosts "
                "whose aggregates lack it are removed; write capabilities:"
                f"{key} or aggregate_instance_extra_specs:{key}"
            )
