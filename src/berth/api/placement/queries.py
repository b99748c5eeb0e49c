"""Parsers of query parameters: resource amounts, traits and aggregates.

The error texts are Placement's, since some clients match on them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from berth.api.placement.errors import PlacementError
from berth.api.placement.shapes import is_uuid
from berth.domain.inventory.resources import AMOUNT_MAX
from berth.services.providers.resource_providers import ProviderQuery

# Microversions that added `!TRAIT`, repeated `member_of`, `!in:` aggregates and `required=in:`.
_FORBIDS_TRAITS = 22
_REPEATS_MEMBER_OF = 24
_FORBIDS_AGGREGATES = 32
_ANY_TRAITS = 39

_INVALID = "Invalid query string parameters: "
_IN_FORM = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"
# No provider has this amount. Larger amounts give the same result and are replaced by this one,
# which keeps amounts within the tables' 64 bits.
_ASKED_MAX = AMOUNT_MAX + 1


class Traits(NamedTuple):
    """Trait conditions: at least one trait of each `required` set, and none of `forbidden`."""

    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()


class Members(NamedTuple):
    """Conditions: at least one aggregate of each `member_of` set, and none of `outside_of`."""

    member_of: tuple[frozenset[str], ...] = ()
    outside_of: frozenset[str] = frozenset()


def provider_query(query: Sequence[tuple[str, str]], minor: int) -> ProviderQuery:
    """Parse the query of GET /resource_providers.

    Args:
        query: every parameter, already validated against the schema.
        minor: microversion.

    Raises:
        PlacementError: 400, a parameter is malformed.
    """
    # Later values overwrite earlier ones: Placement takes the last of repeated parameters, except
    # for `member_of` and `required`.
    last = dict(query)
    members = members_of([value for key, value in query if key == "member_of"], minor)
    traits = traits_of([value for key, value in query if key == "required"], minor)
    resources = last.get("resources")
    return ProviderQuery(
        name=last.get("name") or None,
        uuid=last.get("uuid") or None,
        in_tree=last.get("in_tree") or None,
        amounts=() if resources is None else tuple(amounts_of(resources).items()),
        required=traits.required,
        forbidden=traits.forbidden,
        member_of=members.member_of,
        outside_of=members.outside_of,
    )


def amounts_of(value: str) -> dict[str, int]:
    """Parse `VCPU:2,MEMORY_MB:1024`; if a class is repeated, the last amount wins.

    Raises:
        PlacementError: 400, the value is malformed.
    """
    if not value.strip():
        raise _no_resources("empty string.")
    amounts: dict[str, int] = {}
    for part in value.split(","):
        name, colon, text = part.partition(":")
        if not colon or ":" in text:
            raise _no_resources(f"{part}.")
        try:
            amount = int(text)
        except ValueError as error:
            problem = f"expected positive integer amount. Got: {text}."
            raise PlacementError(400, f"Requested resource {name} {problem}") from error
        if amount < 1:
            problem = f"requires amount >= 1. Got: {amount}."
            raise PlacementError(400, f"Requested resource {name} {problem}")
        amounts[name] = min(amount, _ASKED_MAX)
    return amounts


def traits_of(values: Sequence[str], minor: int) -> Traits:
    """Parse the values of `required`; before microversion 1.39 only the last one applies.

    Raises:
        PlacementError: 400, a value is malformed.
    """
    required: list[frozenset[str]] = []
    forbidden: frozenset[str] = frozenset()
    for value in values if minor >= _ANY_TRAITS else values[-1:]:
        if value.startswith("in:"):
            required.append(_any_of(value, minor))
        else:
            wanted, unwanted = listed_traits(value, may_forbid=minor >= _FORBIDS_TRAITS)
            required += (frozenset((name,)) for name in wanted)
            forbidden |= unwanted
    return Traits(tuple(required), forbidden)


def listed_traits(value: str, *, may_forbid: bool) -> tuple[list[str], frozenset[str]]:
    """Parse `A,!B` into required and forbidden traits.

    Several `!` in a row are read as one, as in Placement.

    Raises:
        PlacementError: 400, the value is malformed.
    """
    names = [name.strip() for name in value.split(",")]
    wanted = [name for name in names if not name.startswith("!")]
    unwanted = frozenset(name.lstrip("!") for name in names if name.startswith("!"))
    form = "HW_CPU_X86_VMX,CUSTOM_MAGIC"
    expected = f"{_INVALID}Expected 'required' parameter value of the form: "
    if not all((*wanted, *unwanted)):
        form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if may_forbid else form
        raise PlacementError(400, f"{expected}{form}. Got an empty trait in: {value}")
    if unwanted and not may_forbid:
        raise PlacementError(400, f"{expected}{form}. Got: {value}")
    return wanted, unwanted


def members_of(values: Sequence[str], minor: int, suffix: str = "") -> Members:
    """Parse the values of `member_of`.

    Args:
        values: in request order.
        minor: microversion.
        suffix: suffix of the request group, for error messages.

    Raises:
        PlacementError: 400, a value is malformed or not supported by the microversion.
    """
    if len(values) > 1 and minor < _REPEATS_MEMBER_OF:
        raise PlacementError(400, f"Multiple member_of{suffix} parameters are not supported")
    member_of: list[frozenset[str]] = []
    outside_of: frozenset[str] = frozenset()
    for value in values:
        is_forbidden, uuids = _aggregates(value)
        if not is_forbidden:
            member_of.append(uuids)
        elif minor < _FORBIDS_AGGREGATES:
            problem = "are not supported in the specified microversion"
            raise PlacementError(400, f"Forbidden member_of{suffix} parameters {problem}")
        else:
            outside_of |= uuids
    return Members(tuple(member_of), outside_of)


def _no_resources(got: str) -> PlacementError:
    return PlacementError(
        400,
        "Badly formed resources parameter. Expected resources query string parameter in form: "
        f"?resources=VCPU:2,MEMORY_MB:1024. Got: {got}",
    )


def _any_of(value: str, minor: int) -> frozenset[str]:
    """Parse `in:A,B` into the set of alternatives."""
    the_format = f"{_INVALID}The format '{_IN_FORM}'"
    if minor < _ANY_TRAITS:
        raise PlacementError(
            400, f"{the_format} only supported since microversion 1.39. Got: {value}"
        )
    names = frozenset(name.strip() for name in value[len("in:") :].split(","))
    if not all(names):
        expected = f"{_INVALID}Expected 'required' parameter value of the form: {_IN_FORM}."
        raise PlacementError(400, f"{expected} Got an empty trait in: {value}")
    if any(name.startswith("!") for name in names):
        raise PlacementError(400, f"{the_format} does not support forbidden traits. Got: {value}")
    return names


def _aggregates(value: str) -> tuple[bool, frozenset[str]]:
    """Parse one `member_of`; return whether its aggregates are forbidden, and their uuids."""
    is_forbidden = value.startswith("!")
    rest = value[1:] if is_forbidden else value
    if rest.startswith("in:"):
        uuids = frozenset(rest[len("in:") :].split(","))
    elif "," in value:
        problem = "must be prefixed with the 'in:' or '!in:' keyword using the valid microversion."
        raise PlacementError(400, f"Multiple values for 'member_of' {problem} Got: {value}")
    else:
        uuids = frozenset((rest,))
    _check_uuids(uuids)
    return is_forbidden, uuids


def _check_uuids(uuids: Iterable[str]) -> None:
    # The uuids are sorted so that the reported one does not depend on the order of a set.
    for uuid in sorted(uuids):
        if not is_uuid(uuid):
            expected = "Expected 'member_of' parameter to contain valid UUID(s)."
            raise PlacementError(400, f"{_INVALID}{expected} Got: {uuid}")
