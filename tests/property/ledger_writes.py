"""Strategies for writes by the Placement API and by moves; few ids make them often collide."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hypothesis import strategies as st

from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration, Stage
from berth.domain.compute.quota import UNLIMITED, Footprint
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from berth.domain.ledger.write import (
    ConsumerUpdate,
    Free,
    Guard,
    QuotaCheck,
    Reallocate,
    ReplaceProvider,
    TransferAllocations,
    Write,
)
from berth.testing.builders import make_action, make_consumer, make_migration, make_uuid

CONSUMERS: Final = (
    make_uuid("consumer", 1),
    make_uuid("consumer", 2),
    make_uuid("instance", 1),
    make_uuid("migration", 1),
)
"""Uuids of consumers, among them an instance and a move."""

_hosts = st.integers(1, 2).map(lambda number: make_uuid("host", number))
_amounts: st.SearchStrategy[Mapping[str, int]] = st.dictionaries(
    st.sampled_from((VCPU, VCPU, MEMORY_MB)), st.integers(1, 3), max_size=2
)
_shares = st.builds(
    lambda uuid, seen, user_id, kind, **rest: ConsumerUpdate(
        replace(make_consumer(1), uuid=uuid, user_id=user_id, consumer_type=kind), seen=seen, **rest
    ),
    st.sampled_from(CONSUMERS),
    st.sampled_from((None, None, 1, 1, 2, 3)),
    st.sampled_from(("user-1", "user-2")),
    st.sampled_from((None, "OTHER")),
    allocations=st.dictionaries(_hosts, _amounts, max_size=2),
    is_checked=st.booleans(),
    keeps_type=st.booleans(),
)


def reallocates() -> st.SearchStrategy[Write]:
    """Draw a write that replaces the allocations of one to three consumers."""
    return st.lists(_shares, min_size=1, max_size=3).map(lambda one: Reallocate(tuple(one)))


def hand_overs() -> st.SearchStrategy[Write]:
    """Draw a transfer of one consumer's allocations to another, often an instance and its move."""
    consumers = st.sampled_from((*CONSUMERS, *CONSUMERS[2:], *CONSUMERS[2:]))
    takers = st.builds(
        lambda uuid, kind: replace(make_consumer(1), uuid=uuid, consumer_type=kind, generation=7),
        consumers,
        st.sampled_from(("INSTANCE", "MIGRATION", None)),
    )
    return st.builds(TransferAllocations, consumers, takers, st.booleans())


def moves() -> st.SearchStrategy[Migration]:
    """Draw a move of one of few instances."""
    return st.builds(
        lambda number, of, stage, at_s: replace(
            make_migration(number, of=of), stage=stage, updated_at_s=at_s
        ),
        st.integers(1, 3),
        st.integers(1, 2),
        st.sampled_from(Stage),
        st.sampled_from((1.0, 2.0)),
    )


def withins() -> st.SearchStrategy[Write]:
    """Draw a quota check of a project with low limits."""
    limit = st.sampled_from((UNLIMITED, 0, 1, 2, 3))
    limits = st.builds(Footprint, limit, limit, st.sampled_from((UNLIMITED, 1_024)))
    return st.builds(QuotaCheck, st.sampled_from(("project-1", "project-2")), limits)


def actions() -> st.SearchStrategy[Action]:
    """Draw an action on one of few instances, ended or not."""
    return st.builds(
        lambda number, of, ended_at_s: replace(make_action(number, of=of), ended_at_s=ended_at_s),
        st.integers(1, 3),
        st.integers(1, 2),
        st.sampled_from((None, 2e9)),
    )


def frees() -> st.SearchStrategy[Write]:
    """Draw a write that frees a consumer."""
    return st.builds(Free, st.sampled_from(CONSUMERS), st.booleans())


def guards() -> st.SearchStrategy[Write]:
    """Draw a use of one of two guards, shared or not."""
    return st.builds(Guard, st.sampled_from(("g", "h")), st.integers(0, 20), st.booleans())


def revises(providers: st.SearchStrategy[Provider]) -> st.SearchStrategy[Write]:
    """Draw a write that replaces one of these providers."""
    generations = st.sampled_from((None, None, 0, 1, 2, 3))
    return st.builds(ReplaceProvider, providers, generations, st.integers(0, 1))
