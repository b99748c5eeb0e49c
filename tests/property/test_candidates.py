"""Laws of allocation candidates: the search finds what trying every arrangement finds."""

from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from berth.adapters.ledger.engine.apply import apply_units
from berth.adapters.ledger.engine.working_set import WorkingSet
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import add_amounts
from berth.domain.ledger.write import Committed, ConsumerUpdate, Put, Reallocate
from berth.scheduling.candidates import arrangement_search
from berth.scheduling.candidates.candidate_search import Candidates, find_candidates
from berth.scheduling.candidates.explain import explain
from berth.scheduling.candidates.masks import ConstraintKind
from berth.scheduling.candidates.query import CandidateQuery
from berth.tables.provider.providers import ProviderTable
from berth.tables.provider.sharing import SHARES
from tests.property.candidate_worlds import (
    crowded_tree,
    crowding_query,
    random_forest,
    random_query,
    table_of,
)
from tests.property.reference_candidates import Candidate, Fleet, candidates
from tests.property.tangled_worlds import can_all_be_tried, tangled_forest, tangled_query

SEEDS = st.integers(0, 2**32)
QUERIES = 8
"""The number of queries for each forest."""


def listed(table: ProviderTable, query: CandidateQuery, found: Candidates) -> list[Candidate]:
    """Return the found candidates in the reference's form."""
    alone = [
        Candidate(
            frozenset((table.uuid(row), name, amount) for name, amount in found.amounts),
            tuple(frozenset({table.uuid(row)}) for _ in query.groups),
        )
        for row in found.alone.tolist()
    ]
    composed = [
        Candidate(
            frozenset(
                (table.uuid(row), name, amount)
                for row, amounts in one.amounts
                for name, amount in amounts
            ),
            tuple(frozenset(map(table.uuid, rows)) for rows in one.mappings),
        )
        for one in found.composed
    ]
    return alone + composed


def check_all(random: Random, forest: list[Provider], query: CandidateQuery) -> None:
    """Compare all candidates, and a limited number of them, with the reference."""
    table = table_of(random, forest)
    expected = candidates(forest, query)
    event("some" if expected else "none")
    every = listed(table, query, find_candidates(table, query))
    assert len(every) == len(set(every))
    assert set(every) == expected
    limit = random.choice((1, 2, 3, 10))
    some = find_candidates(table, limited(query, limit), start=random.randint(0, 20))
    few = listed(table, query, some)
    assert len(few) == len(set(few)) == min(limit, len(expected))
    assert set(few) <= expected


def limited(query: CandidateQuery, limit: int) -> CandidateQuery:
    """Return the same query with a limit."""
    return replace(query, limit=limit)


@given(SEEDS)
def test_finds_every_candidate_once(seed: int) -> None:
    """The search returns every candidate once, and no more than the limit if there is one."""
    random = Random(seed)
    forest = random_forest(random)
    for _ in range(QUERIES):
        check_all(random, forest, random_query(random, forest))


@given(SEEDS)
def test_groups_that_compete(seed: int) -> None:
    """The search loses no candidate to its memory of dead ends when several rows are alike."""
    random = Random(seed)
    check_all(random, crowded_tree(random), crowding_query(random))


@given(SEEDS)
def test_groups_that_hold_each_other_back(seed: int) -> None:
    """The search is right for deep trees, isolated groups, subtrees and sharing providers."""
    random = Random(seed)
    forest = tangled_forest(random)
    for _ in range(QUERIES):
        query = tangled_query(random, forest)
        if can_all_be_tried(forest, query):
            check_all(random, forest, query)


@given(SEEDS)
def test_looking_ahead_takes_no_candidate_away(seed: int) -> None:
    """The search loses no candidate when it looks ahead often and restarts early."""
    random = Random(seed)
    forest, query = crowded_tree(random), crowding_query(random)
    if random.random() < 0.7:
        forest = tangled_forest(random)
        query = tangled_query(random, forest)
    if can_all_be_tried(forest, query):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrangement_search, "LOOKAHEADS_AT_FIRST", 10**6)
            patch.setattr(arrangement_search, "PATIENCE", (1, 3))
            check_all(random, forest, query)


@given(SEEDS)
def test_a_limit_spreads_over_trees(seed: int) -> None:
    """Without sharing, no tree has two candidates listed while another has none."""
    random = Random(seed)
    forest = [replace(one, traits=one.traits - {SHARES}) for one in random_forest(random)]
    query = random_query(random, forest)
    fleet = Fleet(forest)
    trees = {fleet.root(min(one.mappings[0])) for one in candidates(forest, query)}
    for limit in (1, 2, 4):
        table = table_of(random, forest)
        few = listed(
            table, query, find_candidates(table, limited(query, limit), start=random.randint(0, 9))
        )
        assert len({fleet.root(min(one.mappings[0])) for one in few}) == min(limit, len(trees))


@given(SEEDS)
def test_an_explanation_adds_up(seed: int) -> None:
    """Steps never add providers or trees, and the last one keeps the trees that have candidates."""
    random = Random(seed)
    forest = random_forest(random)
    fleet = Fleet(forest)
    for _ in range(QUERIES):
        query = random_query(random, forest)
        table = table_of(random, forest)
        explanation = explain(table, query)
        roots = {one.uuid for one in forest if one.parent_uuid is None}
        assert (explanation.fleet.providers, explanation.fleet.trees) == (len(forest), len(roots))
        for step in explanation.steps:
            assert step.after.providers <= step.before.providers
            assert step.after.trees <= step.before.trees
        last = explanation.steps[-1]
        assert last.constraint is ConstraintKind.COMBINATION
        found = candidates(forest, query)
        assert (explanation.ends_at is None) == bool(found)
        own = {fleet.root(uuid) for one in found for uuid in _not_shared(fleet, one)}
        assert len(own) <= last.after.trees
        if not any(SHARES in one.traits for one in forest):
            assert last.after.trees == len(own)


def _not_shared(fleet: Fleet, candidate: Candidate) -> list[str]:
    used = frozenset[str]().union(*candidate.mappings)
    return [one for one in used if SHARES not in fleet.all[one].traits]


@given(SEEDS)
def test_every_candidate_is_one_that_a_claim_takes(seed: int) -> None:
    """The ledger accepts a claim of a candidate, and of further ones found after each claim."""
    random = Random(seed)
    forest = [replace(one, used={}) for one in random_forest(random)]
    table, books = table_of(random, forest), WorkingSet()
    apply_units(books, [tuple(Put(one) for one in forest)])
    for number in range(QUERIES):
        query = random_query(random, forest)
        every = listed(table, query, find_candidates(table, query))
        if not every:
            continue
        taken: dict[str, dict[str, int]] = {}
        for uuid, name, amount in sorted(random.choice(every).amounts):
            taken.setdefault(uuid, {})[name] = amount
        share = ConsumerUpdate(Consumer(str(UUID(int=number)), "project", "user"), taken)
        (outcome,) = apply_units(books, [(Reallocate((share,)),)])
        assert isinstance(outcome, Committed)
        for uuid, amounts in taken.items():
            row = table.row_of(uuid)
            assert row is not None
            table.put_used(uuid, add_amounts(table.used(row), amounts), None)
