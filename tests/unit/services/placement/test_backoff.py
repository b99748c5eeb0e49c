"""Giving way to other schedulers at pending requests."""

from berth.services.decisions.contention import Backoff

_MOST_S = 0.2


def test_who_is_alone_does_not_wait() -> None:
    """Nor after many requests."""
    turns = Backoff("me")
    for _ in range(100):
        turns.note_own()
    assert turns.delay_s("req-1") == 0


def test_rivals_wait_for_different_times() -> None:
    """And with each request another one is first, as often as any."""
    rivals = [Backoff(name) for name in ("a", "b", "c", "d")]
    for turns in rivals:
        for _ in range(9):
            turns.note_rival()
    first = [
        min(range(4), key=lambda one, n=number: rivals[one].delay_s(f"req-{n}"))  # type: ignore[misc]
        for number in range(400)
    ]
    assert all(0 <= turns.delay_s("req-1") < _MOST_S for turns in rivals)
    assert all(60 < first.count(one) < 140 for one in range(4))


def test_who_is_alone_again_soon_waits_no_more() -> None:
    """It gives way a little less with each request that nobody else had taken up."""
    turns = Backoff("me")
    turns.note_rival()
    requests = 0
    while turns.delay_s("req-1"):
        turns.note_own()
        requests += 1
    assert 10 < requests < 1000
