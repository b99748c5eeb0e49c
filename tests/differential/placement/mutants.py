"""Defects that Berth could have about candidates, each of which the comparison must find."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from berth.api.placement.candidate_query import candidate_query
from berth.api.placement.handlers import allocation_candidates as handler
from berth.api.placement.views import candidates as view
from berth.scheduling.candidates.candidate_search import Candidates, find_candidates
from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery
from berth.tables.provider.providers import ProviderTable


class Patch(NamedTuple):
    """An attribute of Berth and the value that replaces it."""

    owner: object
    name: str
    value: object


def _of_query(change: Callable[[CandidateQuery], CandidateQuery]) -> Patch:
    """Return a patch that changes each query after it is parsed."""

    def wrong(query: Sequence[tuple[str, str]], minor: int) -> CandidateQuery:
        return change(candidate_query(query, minor))

    return Patch(handler, "candidate_query", wrong)


def _of_groups(change: Callable[[CandidateGroup], CandidateGroup]) -> Patch:
    """Return a patch that changes each group of a query."""
    return _of_query(lambda query: replace(query, groups=tuple(map(change, query.groups))))


def _of_found(change: Callable[[Candidates], Candidates]) -> Patch:
    """Return a patch that changes the found candidates."""

    def wrong(table: ProviderTable, query: CandidateQuery) -> Candidates:
        return change(find_candidates(table, query))

    return Patch(handler, "find_candidates", wrong)


def _mapped_to_nobody(found: Candidates) -> Candidates:
    composed = [one._replace(mappings=one.mappings[::-1]) for one in found.composed]
    return replace(found, composed=composed)


def _of_used() -> Patch:
    """Return a patch that shows usages one higher than they are."""
    told = view._Page._used
    return Patch(view._Page, "_used", lambda *given: told(*given) + 1)


MUTANTS: Final[Mapping[str, Callable[[], Patch]]] = {
    "group_policy is ignored": lambda: _of_query(lambda one: replace(one, isolates=False)),
    "all groups are apart": lambda: _of_query(lambda one: replace(one, isolates=True)),
    "root_required is ignored": lambda: _of_query(
        lambda one: replace(one, root_required=frozenset())
    ),
    "forbidden traits of roots are ignored": lambda: _of_query(
        lambda one: replace(one, root_forbidden=frozenset())
    ),
    "same_subtree is ignored": lambda: _of_query(lambda one: replace(one, same_subtree=())),
    "all but one same_subtree is ignored": lambda: _of_query(
        lambda one: replace(one, same_subtree=one.same_subtree[:1])
    ),
    "limit is ignored": lambda: _of_query(lambda one: replace(one, limit=None)),
    "limit is one too small": lambda: _of_query(
        lambda one: replace(one, limit=max(1, (one.limit or 1000) - 1))
    ),
    "all clients know trees": lambda: _of_query(lambda one: replace(one, is_nested_aware=True)),
    "amounts are too small": lambda: _of_groups(
        lambda one: replace(one, amounts=dict.fromkeys(one.amounts, 1))
    ),
    "required is ignored": lambda: _of_groups(lambda one: replace(one, required=())),
    "all but one required is ignored": lambda: _of_groups(
        lambda one: replace(one, required=one.required[:1])
    ),
    "any of several traits is one of them": lambda: _of_groups(
        lambda one: replace(one, required=tuple(frozenset(sorted(s)[:1]) for s in one.required))
    ),
    "forbidden traits are ignored": lambda: _of_groups(
        lambda one: replace(one, forbidden=frozenset())
    ),
    "member_of is ignored": lambda: _of_groups(lambda one: replace(one, member_of=())),
    "all but one member_of is ignored": lambda: _of_groups(
        lambda one: replace(one, member_of=one.member_of[:1])
    ),
    "forbidden aggregates are ignored": lambda: _of_groups(
        lambda one: replace(one, outside_of=frozenset())
    ),
    "in_tree is ignored": lambda: _of_groups(lambda one: replace(one, in_tree=None)),
    "a candidate of one provider is lost": lambda: _of_found(
        lambda found: replace(found, alone=found.alone[1:])
    ),
    "a candidate of several providers is lost": lambda: _of_found(
        lambda found: replace(found, composed=found.composed[1:])
    ),
    "groups are mapped to others' providers": lambda: _of_found(_mapped_to_nobody),
    "too much is told to be used": _of_used,
    "trees are not shown": lambda: Patch(view, "_with_trees", lambda _, rows: rows),
    "names are not looked at": lambda: Patch(handler, "check_names", lambda *_: None),
}
