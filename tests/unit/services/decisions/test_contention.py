"""Tests for choosing among more hosts under contention, and for the delay before requests."""

from berth.services.decisions.contention import Backoff, Contention

_MOST = 64


def test_who_is_alone_takes_the_best() -> None:
    """Without lost claims the best host is chosen."""
    contention = Contention()
    for _ in range(100):
        contention.note(is_lost=False, most=_MOST)
    assert contention.among(_MOST) == 1


def test_who_loses_chooses_among_more_up_to_what_the_policy_allows() -> None:
    """Each lost claim doubles the number of hosts, up to the policy's limit."""
    contention = Contention()
    seen = []
    for _ in range(8):
        contention.note(is_lost=True, most=_MOST)
        seen.append(contention.among(_MOST))
    assert seen == [2, 4, 8, 16, 32, 64, 64, 64]
    assert contention.among(5) == 5


def test_who_wins_again_comes_back_to_the_best() -> None:
    """The number of hosts returns to one after many won claims."""
    contention = Contention()
    for _ in range(6):
        contention.note(is_lost=True, most=_MOST)
    wins = 0
    while contention.among(_MOST) > 1:
        contention.note(is_lost=False, most=_MOST)
        wins += 1
    assert 32 < wins < 500


def test_a_policy_of_one_never_chooses_by_chance() -> None:
    """With a limit of one the best host is chosen in spite of lost claims."""
    contention = Contention()
    for _ in range(9):
        contention.note(is_lost=True, most=1)
    assert contention.among(1) == 1


_MOST_S = 0.2


def test_who_is_alone_does_not_wait() -> None:
    """A scheduler without rivals does not wait."""
    turns = Backoff("me")
    for _ in range(100):
        turns.note_own()
    assert turns.delay_s("req-1") == 0


def test_rivals_wait_for_different_times() -> None:
    """Rivals wait for different times, and each is the first for about as many requests."""
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
    """A scheduler stops waiting after enough requests without rivals."""
    turns = Backoff("me")
    turns.note_rival()
    requests = 0
    while turns.delay_s("req-1"):
        turns.note_own()
        requests += 1
    assert 10 < requests < 1000
