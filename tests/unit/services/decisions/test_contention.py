"""How widely a scheduler chooses while others take what it chose."""

from berth.services.decisions.contention import Contention

_MOST = 64


def test_who_is_alone_takes_the_best() -> None:
    """However often it wins."""
    rivalry = Contention()
    for _ in range(100):
        rivalry.note(is_lost=False, most=_MOST)
    assert rivalry.among(_MOST) == 1


def test_who_loses_chooses_among_more_up_to_what_the_policy_allows() -> None:
    """Each loss doubles it."""
    rivalry = Contention()
    seen = []
    for _ in range(8):
        rivalry.note(is_lost=True, most=_MOST)
        seen.append(rivalry.among(_MOST))
    assert seen == [2, 4, 8, 16, 32, 64, 64, 64]
    assert rivalry.among(5) == 5


def test_who_wins_again_comes_back_to_the_best() -> None:
    """After a while, so that a lull does not bring the contention back at once."""
    rivalry = Contention()
    for _ in range(6):
        rivalry.note(is_lost=True, most=_MOST)
    wins = 0
    while rivalry.among(_MOST) > 1:
        rivalry.note(is_lost=False, most=_MOST)
        wins += 1
    assert 32 < wins < 500


def test_a_policy_of_one_never_chooses_by_chance() -> None:
    """Whatever is lost."""
    rivalry = Contention()
    for _ in range(9):
        rivalry.note(is_lost=True, most=1)
    assert rivalry.among(1) == 1
