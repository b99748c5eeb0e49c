"""Parses the query of `GET /allocation_candidates`: request groups and request-wide parameters."""

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from berth.api.placement.errors import Code, PlacementError
from berth.api.placement.queries import (
    Members,
    Traits,
    amounts_of,
    listed_traits,
    members_of,
    traits_of,
)
from berth.api.placement.shapes import is_uuid
from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery

# Microversions that added forbidden traits, nested providers, free-form group suffixes and
# `same_subtree`.
_FORBIDS_TRAITS = 22
_NESTS = 29
_NAMES_GROUPS = 33
_KEEPS_SUBTREES = 36

_NUMBERED: Final = re.compile(r"(resources|required|member_of|in_tree)([1-9][0-9]*)?")
_NAMED: Final = re.compile(r"(resources|required|member_of|in_tree)([a-zA-Z0-9_-]{1,64})?")

_Query = Sequence[tuple[str, str]]


def candidate_query(query: _Query, minor: int) -> CandidateQuery:
    """Parse the query of GET /allocation_candidates.

    Class and trait names are not checked against the vocabulary.

    Args:
        query: every parameter, already validated against the schema.
        minor: microversion.

    Raises:
        PlacementError: 400, a parameter is malformed or missing, or parameters contradict each
            other.
    """
    # The order of parsing and checks is Placement's: a request with several mistakes must get the
    # same error from Berth and from Placement, and the differential tests compare the texts.
    root_required, root_forbidden = _root(_every(query, "root_required"))
    same_subtree = _subtrees(_every(query, "same_subtree"))
    groups = _groups(query, minor)
    if minor >= _KEEPS_SUBTREES:
        _check_subtrees(groups, frozenset[str]().union(*same_subtree))
    else:
        _check_orphans(groups)
    if minor >= _FORBIDS_TRAITS:
        _check_conflicts(groups)
    policy = _first(query, "group_policy")
    if not policy and sum(1 for suffix in groups if suffix) > 1:
        raise PlacementError(
            400,
            'The "group_policy" parameter is required when specifying more than one '
            '"resources{N}" parameter.',
        )
    limit = _first(query, "limit")
    return CandidateQuery(
        groups=tuple(asked.group(suffix) for suffix, asked in groups.items()),
        # Before 1.25 there is no `group_policy`, and only the unsuffixed group passes the schema.
        isolates=policy == "isolate",
        root_required=root_required,
        root_forbidden=root_forbidden,
        same_subtree=same_subtree,
        limit=int(limit) if limit else None,
        is_nested_aware=minor >= _NESTS,
    )


def _every(query: _Query, name: str) -> list[str]:
    return [value for key, value in query if key == name]


def _first(query: _Query, name: str) -> str | None:
    return next((value for key, value in query if key == name), None)


# ---- request-wide parameters ---------------------------------------------------------------


def _root(values: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Parse `root_required` into the root's required and forbidden traits."""
    if not values:
        return frozenset(), frozenset()
    if len(values) > 1:
        text = "Query parameter 'root_required' may be specified only once."
        raise PlacementError(400, text, Code.QUERY_DUPLICATE_KEY)
    if values[0].startswith("in:"):
        _refuse_any(values[0])
    wanted, forbidden = listed_traits(values[0], may_forbid=True)
    required = frozenset(wanted)
    both = required & forbidden
    if both:
        text = "Conflicting required and forbidden traits found in root_required: "
        raise PlacementError(400, text + ", ".join(sorted(both)), Code.QUERY_BAD_VALUE)
    return required, forbidden


def _refuse_any(value: str) -> None:
    """Refuse `in:`, which `root_required` does not support in any microversion.

    Parsing it as in version 1.0 raises an error with Placement's text.
    """
    traits_of([value], 0)


def _subtrees(values: Iterable[str]) -> tuple[frozenset[str], ...]:
    """Parse each value of `same_subtree` into the suffixes of groups that share a subtree."""
    found: list[frozenset[str]] = []
    for value in values:
        suffixes = frozenset(part.strip() for part in value.split(","))
        if "" in suffixes:
            text = "Empty string (unsuffixed group) can not be specified in `same_subtree` "
            raise PlacementError(400, text, Code.QUERY_BAD_VALUE)
        found.append(suffixes)
    return tuple(found)


# ---- groups ----------------------------------------------------------------------------------


class _Asked(NamedTuple):
    """The parameters of one request group."""

    amounts: Mapping[str, int]
    traits: Traits
    members: Members
    in_tree: str | None

    def group(self, suffix: str) -> CandidateGroup:
        """Return the group in the form that the candidate search takes."""
        return CandidateGroup(
            suffix=suffix,
            amounts=self.amounts,
            required=self.traits.required,
            forbidden=self.traits.forbidden,
            member_of=self.members.member_of,
            outside_of=self.members.outside_of,
            in_tree=self.in_tree,
        )


_NOTHING_ASKED: Final = _Asked({}, Traits(), Members(), None)

_Groups = Mapping[str, _Asked]


def _groups(query: _Query, minor: int) -> dict[str, _Asked]:
    """Parse the groups by suffix, in the order in which the query first names them.

    Parameters are parsed in request order, so the first malformed one is reported. If a group
    repeats `resources` or `in_tree`, the last value wins.
    """
    pattern = _NAMED if minor >= _NAMES_GROUPS else _NUMBERED
    groups: dict[str, _Asked] = {}
    values: dict[str, list[str]] = {}
    for key, value in query:
        values.setdefault(key, []).append(value)
    for key, value in query:
        found = pattern.fullmatch(key)
        if found is None:
            continue
        suffix = found[2] or ""
        asked = groups.get(suffix, _NOTHING_ASKED)
        match found[1]:
            case "resources":
                asked = asked._replace(amounts=amounts_of(value))
            case "in_tree":
                asked = asked._replace(in_tree=_in_tree(value))
            case "required" if key in values:
                asked = asked._replace(traits=traits_of(values.pop(key), minor))
            case "member_of" if key in values:
                asked = asked._replace(members=members_of(values.pop(key), minor, suffix))
            case _:
                pass  # the first occurrence of the name consumed all its values
        groups[suffix] = asked
    return groups


def _in_tree(value: str) -> str:
    uuid = value.strip()
    if not is_uuid(uuid):
        expected = "Expected 'in_tree' parameter to be a format of uuid."
        raise PlacementError(400, f"Invalid query string parameters: {expected} Got: {value}")
    return uuid


def _check_subtrees(groups: _Groups, kept: AbstractSet[str]) -> None:
    """Check the groups without resources, and the suffixes in `same_subtree`.

    Args:
        groups: the groups by suffix.
        kept: all suffixes that `same_subtree` names.

    Raises:
        PlacementError: 400, no group has resources, `same_subtree` does not name a group without
            resources, or it names a group that the query does not have.
    """
    empty = sorted(suffix for suffix, asked in groups.items() if not asked.amounts)
    if len(empty) == len(groups):
        text = "There must be at least one resources or resources[$S] parameter."
        raise PlacementError(400, text, Code.QUERY_MISSING_VALUE)
    stray = [suffix for suffix in empty if suffix not in kept]
    if stray:
        text = (
            "Resourceless suffixed group request should be specified in `same_subtree` query "
            f"param: bad group(s) - {stray}."
        )
        raise PlacementError(400, text, Code.QUERY_BAD_VALUE)
    unknown = sorted(kept - groups.keys())
    if unknown:
        text = (
            f"Real suffixes should be specified in `same_subtree`: {unknown} not found in "
            f"{list(groups)}."
        )
        raise PlacementError(400, text, Code.QUERY_BAD_VALUE)


def _check_orphans(groups: _Groups) -> None:
    """Check that there are groups and each has resources, as required up to microversion 1.35."""
    empty = {suffix: asked for suffix, asked in groups.items() if not asked.amounts}
    orphans = [f"required{suffix}" for suffix, asked in empty.items() if asked.traits.required]
    if orphans:
        raise PlacementError(
            400,
            # Placement's text contains the same double space.
            "All traits parameters must be associated with resources.  Found the following "
            f"orphaned traits keys: {', '.join(orphans)}",
        )
    orphans = [f"member_of{suffix}" for suffix, asked in empty.items() if any(asked.members)]
    if orphans:
        raise PlacementError(
            400,
            "All member_of parameters must be associated with resources. Found the following "
            f"orphaned member_of keys: {', '.join(orphans)}",
        )
    if empty:
        raise PlacementError(400, "All request groups must specify resources.")
    if not groups:
        text = "At least one request group (`resources` or `resources{$S}`) is required."
        raise PlacementError(400, text)


def _check_conflicts(groups: _Groups) -> None:
    """Check that no group forbids all traits of a set and requires one of them."""
    # An `in:` set is contradictory only if all its members are forbidden: a provider can still
    # match with a member that is not.
    conflicts = [
        f"required{suffix}: ({', '.join(sorted(names))})"
        for suffix, asked in groups.items()
        for names in asked.traits.required
        if names <= asked.traits.forbidden
    ]
    if conflicts:
        raise PlacementError(
            400,
            "Conflicting required and forbidden traits found in the following traits keys: "
            f"{', '.join(sorted(conflicts))}",
        )
