"""A unit of writes takes effect as a whole or not at all."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from berth.adapters.ledger.engine.apply import apply_unit, apply_units
from berth.adapters.ledger.engine.working_set import WorkingSet
from berth.domain.fast_replace import fast_replace
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from berth.domain.ledger.write import Committed, Free, Put, Rejected, Take, Unit, Write
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
    """Return a working set with two small hosts."""
    working_set = WorkingSet()
    apply_units(working_set, make_fleet(2, vcpus=4))
    working_set.take_changes()
    return working_set


@given(st.lists(_units, max_size=6), _units)
def test_a_refused_unit_leaves_the_working_set_as_it_was(before: list[Unit], unit: Unit) -> None:
    """A rejected unit leaves the working set equal to a copy made before it."""
    working_set = fleet()
    apply_units(working_set, before)
    expected = copy.deepcopy(working_set)
    if isinstance(apply_unit(working_set, unit), Rejected):
        assert working_set == expected


@given(st.lists(_units, max_size=6))
def test_a_batch_is_its_units_one_after_another(units: list[Unit]) -> None:
    """Outcomes, state and changes do not depend on how units are split into batches."""
    together, apart = fleet(), fleet()
    assert apply_units(together, units) == [apply_units(apart, [unit])[0] for unit in units]
    assert together == apart


def test_a_placement_takes_one_version() -> None:
    """A claim, its instance and its decision take one version; the repeated unit takes none."""
    take = Take(
        Claim("c", (Allocation(make_uuid("instance", 1), make_uuid("host", 1), {VCPU: 1}),))
    )
    unit: Unit = (take, Put(make_instance(1)), Put(make_decision(1)))
    working_set = fleet()
    version = working_set.version + 1
    assert apply_unit(working_set, unit) == Committed(version)
    assert apply_unit(working_set, unit) == Committed(version, repeated=True)
