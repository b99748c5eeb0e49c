"""Units that are judged at once come to the same as write by write."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from berth.adapters.ledger.engine.apply import apply_unit, apply_units
from berth.adapters.ledger.engine.at_once import commit_at_once
from berth.adapters.ledger.engine.working_set import UnitTransaction, WorkingSet
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from berth.domain.ledger.write import Committed, Free, Put, Take, Unit, Write
from berth.domain.revising import fast_replace
from berth.testing.builders import (
    make_decision,
    make_fleet,
    make_instance,
    make_pending_request,
    make_uuid,
)
from tests.property.ledger_writes import actions, frees, hand_overs, moves, reallocates

_numbers = st.integers(1, 3)
_amounts = st.dictionaries(st.sampled_from((VCPU, MEMORY_MB, "X")), st.integers(0, 3), min_size=1)
_allocations = st.builds(
    lambda consumer, host, amounts: Allocation(
        make_uuid("instance", consumer), make_uuid("host", host), amounts
    ),
    _numbers,
    _numbers,
    _amounts,
)
_takes = st.builds(
    lambda key, allocations: Take(Claim(f"claim-{key}", tuple(allocations))),
    st.integers(1, 4),
    st.lists(_allocations, min_size=1, max_size=2) | st.builds(list[Allocation]),
)
_puts = st.one_of(
    st.builds(
        lambda number, revision: Put(fast_replace(make_instance(number), revision=revision)),
        _numbers,
        st.integers(0, 2),
    ),
    _numbers.map(make_decision).map(Put),
    _numbers.map(make_pending_request).map(Put),
)
_frees = st.builds(Free, _numbers.map(lambda number: make_uuid("instance", number)))
_writes: st.SearchStrategy[Write] = st.one_of(
    _takes,
    _takes,
    _puts,
    _puts,
    _frees,
    reallocates(),
    frees(),
    hand_overs(),
    st.builds(Put, moves() | actions()),
)
_units: st.SearchStrategy[Unit] = st.lists(_writes, max_size=3).map(tuple)


def fleet() -> WorkingSet:
    """Return books of two small hosts."""
    working_set = WorkingSet()
    apply_units(working_set, make_fleet(2, vcpus=4))
    working_set.settle()
    return working_set


@given(st.lists(_units, max_size=8))
def test_units_come_to_the_same_at_once_and_write_by_write(units: list[Unit]) -> None:
    """Outcomes, books and what is to be written down are equal, in the same order."""
    quick, slow = fleet(), fleet()
    assert apply_units(quick, units) == [apply_unit(slow, unit) for unit in units]
    assert quick == slow
    for name in ("puts", "born", "drawn", "taken", "freed", "claimed"):
        assert list(getattr(quick.change_set, name)) == list(getattr(slow.change_set, name))


@given(st.lists(_units, max_size=4), _units)
def test_what_is_not_committed_at_once_leaves_no_trace(before: list[Unit], unit: Unit) -> None:
    """The books are as they were, so that the unit can be judged write by write."""
    working_set = fleet()
    apply_units(working_set, before)
    expected = copy.deepcopy(working_set)
    if commit_at_once(working_set, unit) is None:
        assert working_set == expected


def test_a_placement_is_committed_at_once() -> None:
    """The way that nearly all units take is not left by accident."""
    take = Take(
        Claim("c", (Allocation(make_uuid("instance", 1), make_uuid("host", 1), {VCPU: 1}),))
    )
    unit: Unit = (take, Put(make_instance(1)), Put(make_decision(1)))
    working_set = fleet()
    version = working_set.version + 1
    assert commit_at_once(working_set, unit) == Committed(version)
    assert commit_at_once(working_set, unit) is None
    assert UnitTransaction(working_set, unit).version == version + 1
