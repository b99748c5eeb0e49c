"""Tests for the remaining capacity of providers that several groups use."""

from berth.scheduling.candidates.capacity import CapacityConstraint
from berth.scheduling.candidates.lookahead import OpenRows


def room_for(costs: list[int], sizes: dict[int, int]) -> CapacityConstraint:
    """Return the constraint of slots with these amounts and rows with these capacities."""
    return CapacityConstraint([[(0, cost)] for cost in costs], lambda row: [sizes[row], 1], 1)


def apart(slots: int) -> CapacityConstraint:
    """Return the constraint of slots that each need a row of their own."""
    return CapacityConstraint([[(1, 1)] for _ in range(slots)], lambda _row: [0, 1], 1)


def has_enough(room: CapacityConstraint, choices: list[list[int]], depth: int = 0) -> bool:
    """Return whether the constraint allows the slots from a depth on."""
    return room.narrow(depth, OpenRows(choices))


def test_takes_and_releases() -> None:
    """A taken slot reduces the capacity of its row until it is released."""
    room = room_for([2, 2], {7: 3})
    assert room.allows(0, 7)
    room.take(0, 7)
    assert not room.allows(1, 7)
    room.release(0, 7)
    assert room.allows(1, 7)


def test_slots_that_ask_nothing_leave_no_trace() -> None:
    """Slots without contested amounts do not change the state."""
    room = CapacityConstraint([[], [(0, 1)]], lambda _row: [1, 1])
    before = room.state(1, lambda row: row)
    assert room.allows(0, 7)
    room.take(0, 7)
    assert room.state(1, lambda row: row) == before


def test_states_of_rows_that_look_alike_are_equal() -> None:
    """States are equal if equivalent rows were taken and differ otherwise."""
    sizes = {1: 5, 2: 5, 3: 4}
    states: list[object] = []
    for row in (1, 2, 3):
        room = room_for([3, 3], sizes)
        assert room.allows(0, row)
        room.take(0, row)
        states.append(room.state(1, lambda _row: 0))
    assert states[0] == states[1] == states[2]
    room = room_for([3, 2], sizes)
    assert room.allows(0, 3)
    room.take(0, 3)
    less = room.state(1, lambda _row: 0)
    room.release(0, 3)
    assert room.allows(0, 1)
    room.take(0, 1)
    assert room.state(1, lambda _row: 0) != less


def test_sums_tell_what_is_too_little() -> None:
    """Capacity that no sum of the amounts can fill is ignored."""
    sizes = {1: 5, 2: 5}
    assert not has_enough(room_for([3, 3, 3], sizes), [[1, 2]] * 3)
    assert has_enough(room_for([3, 3, 2], sizes), [[1, 2]] * 3)
    assert has_enough(room_for([3, 3, 3], sizes), [[1, 2]] * 3, depth=1)


def test_large_amounts_are_counted_by_themselves() -> None:
    """Amounts too large to share a row are counted separately."""
    sizes = {1: 9, 2: 9, 3: 9, 4: 9}
    assert not has_enough(room_for([5, 5, 5, 5, 5, 1, 1], sizes), [[1, 2, 3, 4]] * 7)
    assert has_enough(room_for([5, 5, 5, 5, 4, 1, 1], sizes), [[1, 2, 3, 4]] * 7)


def test_rows_with_too_little_left_are_taken_away() -> None:
    """Rows with too little capacity left are removed from the slots that need more."""
    room, choices = room_for([3, 3, 2], {1: 5, 2: 5}), [[1, 2]] * 3
    assert room.allows(0, 1)
    room.take(0, 1)
    open_rows = OpenRows(choices)
    assert room.narrow(1, open_rows)
    one, two = open_rows.bit_of[1], open_rows.bit_of[2]
    assert open_rows.open == [one | two, two, one | two]
    assert not has_enough(room, [[1, 2], [1], [1, 2]], depth=1)


def test_rows_to_oneself() -> None:
    """Slots that need a row each are refused if no matching gives every slot a row."""
    assert has_enough(apart(3), [[1, 2], [1, 2], [3]])
    assert has_enough(apart(3), [[1, 2], [2, 3], [1]])
    assert not has_enough(apart(4), [[1, 2], [1, 2], [2, 1], [3, 4]])
    used = apart(2)
    assert used.allows(0, 2)
    used.take(0, 2)
    assert has_enough(used, [[1, 2], [1, 2]], depth=1)
    assert not has_enough(apart(2), [[1], [1]])


def test_many_different_amounts() -> None:
    """With too many possible sums the capacities count unreduced."""
    costs = [2**n for n in range(12)]
    assert has_enough(room_for(costs, {1: 4095}), [[1]] * 12)
    assert not has_enough(room_for(costs, {1: 4094}), [[1]] * 12)
