"""EphemeralEncryptionFilter: the host encrypts local disks, when flavor or image ask for it.

Nova's pre-filter `ephemeral_encryption_filter` (nova-behaviour.md 2.8).
"""

from collections.abc import Mapping

from berth.domain.errors import InvalidInputError
from berth.scheduling.rules.demanded_traits import (
    asked_by_both,
    is_asked_by_either,
    trait_filter,
    trait_of,
)
from berth.scheduling.rules.rule import Filter, Query

NAME = "EphemeralEncryptionFilter"
_TRAIT = "COMPUTE_EPHEMERAL_ENCRYPTION"
_FORMAT = "ephemeral_encryption_format"
_FORMATS = ("plain", "luks", "luksv2")


def build() -> Filter:
    """Make the filter; it has no options."""
    return trait_filter(NAME, _demands, request=("flavor.extra_specs", "image.properties"))


def _demands(query: Query) -> Mapping[str, str]:
    asked, source = is_asked_by_either(query, "ephemeral_encryption")
    if not asked:
        return {}
    form, of_form = asked_by_both(query, _FORMAT)
    if not form:
        return {_TRAIT: source}
    if form not in _FORMATS:
        reason = f"{form[:80]!r} must be one of {', '.join(_FORMATS)}"
        raise InvalidInputError(f"hw:{_FORMAT}", reason)
    return {_TRAIT: source, trait_of(_TRAIT, form): of_form}
