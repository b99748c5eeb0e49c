"""What is left of providers that several groups use."""

from berth.scheduling.candidates.room import Room


def room_for(costs: list[int], choices: list[list[int]], sizes: dict[int, int]) -> Room:
    """Slots that ask for so much of one class, and rows that have so much of it."""
    return Room([[(0, cost)] for cost in costs], choices, lambda row: [sizes[row], 1], 1)


def apart(choices: list[list[int]]) -> Room:
    """Slots that want a row to themselves."""
    return Room([[(1, 1)] for _ in choices], choices, lambda _row: [0, 1], 1)


def test_takes_and_releases() -> None:
    """Less is left after a slot, and as much as before when it is undone."""
    room = room_for([2, 2], [[7], [7]], {7: 3})
    assert room.allows(0, 7)
    room.take(0, 7)
    assert not room.allows(1, 7)
    room.release(0, 7)
    assert room.allows(1, 7)


def test_slots_that_ask_nothing_leave_no_trace() -> None:
    """What is not contested does not tell states apart."""
    room = Room([[], [(0, 1)]], [[7], [7]], lambda _row: [1, 1])
    before = room.state(1, lambda row: row)
    assert room.allows(0, 7)
    room.take(0, 7)
    assert room.state(1, lambda row: row) == before


def test_states_of_rows_that_look_alike_are_equal() -> None:
    """It matters that one of them gave, not which."""
    sizes = {1: 5, 2: 5, 3: 4}
    states: list[object] = []
    for row in (1, 2, 3):
        room = room_for([3, 3], [[1, 2, 3], [1, 2, 3]], sizes)
        assert room.allows(0, row)
        room.take(0, row)
        states.append(room.state(1, lambda _row: 0))
    assert states[0] == states[1] == states[2]
    room = room_for([3, 2], [[1, 2, 3], [1, 2, 3]], sizes)
    assert room.allows(0, 3)
    room.take(0, 3)
    less = room.state(1, lambda _row: 0)
    room.release(0, 3)
    assert room.allows(0, 1)
    room.take(0, 1)
    assert room.state(1, lambda _row: 0) != less


def test_sums_tell_what_is_hopeless() -> None:
    """Room that no sum of amounts can fill does not count."""
    sizes = {1: 5, 2: 5}
    assert room_for([3, 3, 3], [[1, 2]] * 3, sizes).is_hopeless(0)
    assert not room_for([3, 3, 2], [[1, 2]] * 3, sizes).is_hopeless(0)
    assert not room_for([3, 3, 3], [[1, 2]] * 3, sizes).is_hopeless(1)


def test_rows_to_oneself() -> None:
    """As many rows as slots are not enough when some serve none of those that are left."""
    assert not apart([[1, 2], [1, 2], [3]]).is_hopeless(0)
    assert not apart([[1, 2], [2, 3], [1]]).is_hopeless(0)
    assert apart([[1, 2], [1, 2], [2, 1], [3, 4]]).is_hopeless(0)
    used = apart([[1, 2], [1, 2]])
    assert used.allows(0, 2)
    used.take(0, 2)
    assert not used.is_hopeless(1)
    assert apart([[1], [1]]).is_hopeless(0)


def test_many_different_amounts() -> None:
    """With more sums than are told apart, rooms count as they are."""
    costs = [2**n for n in range(12)]
    room = room_for(costs, [[1]] * 12, {1: 4095})
    assert not room.is_hopeless(0)
    assert room_for(costs, [[1]] * 12, {1: 4094}).is_hopeless(0)
