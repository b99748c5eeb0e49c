"""Children that die, are late or are cut off while a request is under way, as real processes."""

import pytest

from tests.e2e.zones.conftest import DEEP, EAST, WEST
from tests.e2e.zones.faulty_tree import FaultyTree, wait_until
from tests.e2e.zones.gate import BUILDS, SELECTS

pytestmark = pytest.mark.timeout(300)


def test_a_child_killed_before_it_gets_a_build(tree: FaultyTree) -> None:
    """Its part waits until it can say that it has nothing, and finds a place all the same."""
    gate = tree.gates["west"]
    gate.hold(requests=BUILDS)
    ask = tree.begin("cut", 4)
    gate.wait()
    tree["west"].kill()
    gate.cut()
    gate.open()
    tree["west"].start()
    assert tree.statuses(ask) == {"ACTIVE"}
    assert sum(tree.places()["cut"].values()) == 4
    tree.check_room()


def test_a_child_killed_when_it_has_built(tree: FaultyTree) -> None:
    """Its part is there when it is back, and nowhere else."""
    gate = tree.gates["west"]
    gate.hold(answers_of=BUILDS)
    ask = tree.begin("built", WEST)
    gate.wait()
    tree["west"].kill()
    gate.cut()
    gate.open()
    tree["west"].start()
    assert tree.statuses(ask) == {"ACTIVE"}
    assert tree.places()["built"] == {"west": WEST}
    tree.check_room()


@pytest.mark.parametrize("name", ["west", "deep"])
def test_a_child_killed_in_the_midst_of_a_build(tree: FaultyTree, name: str) -> None:
    """What it has made of its part counts, and the rest goes elsewhere; or nothing is left."""
    gate = tree.gates["west"]
    gate.hold(requests=BUILDS)
    ask = tree.begin("midst", WEST + DEEP)
    gate.wait()
    gate.open()
    tree[name].kill()
    tree[name].start()
    assert tree.statuses(ask) == {"ACTIVE"}
    assert sum(tree.places()["midst"].values()) == WEST + DEEP
    tree.check_room()


def test_a_child_that_stays_away(hasty_tree: FaultyTree) -> None:
    """The request fails as a whole, and what the child has is taken back when it is there again."""
    tree, gate = hasty_tree, hasty_tree.gates["west"]
    gate.hold(answers_of=BUILDS)
    ask = tree.begin("away", WEST + DEEP + EAST)
    gate.wait()
    tree["west"].kill()
    gate.cut()
    gate.open()
    assert tree.statuses(ask) == {"ERROR"}
    (reason,) = {one["fault"]["message"] for one in tree.servers()}
    assert "did not answer for" in reason
    assert tree.create("meanwhile", 2) == {"ACTIVE"}
    tree["west"].start()
    places = tree.places()
    assert places["away"] == {}
    assert places["meanwhile"] == {"east": 2}
    tree.check_room()


def test_a_child_that_is_late_with_its_offers(tree: FaultyTree) -> None:
    """It is left out, and what it holds for nobody comes back."""
    gate = tree.gates["west"]
    gate.hold(answers_of=SELECTS)
    ask = tree.begin("late", 3)
    gate.wait()
    assert tree.statuses(ask) == {"ACTIVE"}
    gate.open()
    assert tree.places()["late"] == {"east": 3}
    tree.check_room()


def test_a_way_that_is_slow(tree: FaultyTree) -> None:
    """A child that is asked, and whose answers all come after the deadline, is left out."""
    gate = tree.gates["west"]
    gate.delay_s = 2.5  # there and back: longer than a select may take
    assert tree.create("slow", 3) == {"ACTIVE"}
    gate.delay_s = 0.0
    assert tree.places()["slow"] == {"east": 3}
    tree.check_room()


def test_an_answer_to_a_build_that_is_lost(tree: FaultyTree) -> None:
    """The child is asked what came of it, so its part is there once."""
    gate = tree.gates["west"]
    gate.lose(answer_of=BUILDS)
    assert tree.create("lost", WEST + DEEP) == {"ACTIVE"}
    assert gate.loses_answer_of is None
    assert tree.places()["lost"] == {"west": WEST, "deep": DEEP}
    tree.check_room()


def test_an_answer_to_a_build_that_is_late(tree: FaultyTree) -> None:
    """As one that is lost; when it comes nobody minds."""
    gate = tree.gates["west"]
    gate.hold(answers_of=BUILDS)
    ask = tree.begin("slow", WEST + DEEP)
    gate.wait()
    assert tree.statuses(ask) == {"ACTIVE"}
    gate.open()
    assert tree.places()["slow"] == {"west": WEST, "deep": DEEP}
    tree.check_room()


def test_a_build_that_comes_too_late(tree: FaultyTree) -> None:
    """When its part is elsewhere by then, neither the child nor the one below it builds it."""
    gate = tree.gates["west"]
    gate.hold(requests=BUILDS)
    ask = tree.begin("stale", WEST + DEEP)
    gate.wait()
    gate.hold_no_more()
    assert tree.statuses(ask) == {"ACTIVE"}
    before = tree.places()["stale"]
    assert sum(before.values()) == WEST + DEEP
    gate.open()
    wait_until(lambda: _is_refused(b"".join(gate.late)), "the late build was not refused")
    assert tree.places()["stale"] == before
    tree.check_room()


def _is_refused(answer: bytes) -> bool:
    """Tell whether a late build was; on a slow machine its statement may have ended, too."""
    return b"withdrawn" in answer or answer.startswith(b"HTTP/1.1 401 ")
