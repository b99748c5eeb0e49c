"""Child zones that die, are late or are cut off during a request, as real processes."""

import pytest

from tests.e2e.zones.conftest import DEEP, EAST, WEST
from tests.e2e.zones.faulty_tree import FaultyTree, wait_until
from tests.e2e.zones.gate import BUILDS, SELECTS

pytestmark = pytest.mark.timeout(300)


def test_a_child_killed_before_it_gets_a_build(tree: FaultyTree) -> None:
    """Instances of a child killed before its build wait for the child, and are then placed."""
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
    """Instances that a child has built before it was killed are there, and nowhere else."""
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
    """All instances are placed once, although a zone is killed during the build."""
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
    """A request whose child stays away fails as a whole; the child's instances are withdrawn."""
    tree, gate = hasty_tree, hasty_tree.gates["west"]
    gate.hold(answers_of=BUILDS)
    ask = tree.begin("away", WEST + DEEP + EAST)
    gate.wait()
    tree["west"].kill()
    gate.cut()
    gate.open()
    assert tree.statuses(ask) == {"ERROR"}
    (reason,) = {one["fault"]["message"] for one in tree.servers()}
    assert "did not answer" in reason
    assert tree.create("meanwhile", 2) == {"ACTIVE"}
    tree["west"].start()
    places = tree.places()
    assert places["away"] == {}
    assert places["meanwhile"] == {"east": 2}
    tree.check_room()


def test_a_child_that_is_late_with_its_offers(tree: FaultyTree) -> None:
    """A child whose offers are late is left out, and its holds are released."""
    gate = tree.gates["west"]
    gate.hold(answers_of=SELECTS)
    ask = tree.begin("late", 3)
    gate.wait()
    assert tree.statuses(ask) == {"ACTIVE"}
    gate.open()
    assert tree.places()["late"] == {"east": 3}
    tree.check_room()


def test_a_way_that_is_slow(tree: FaultyTree) -> None:
    """A child whose answers come after the deadline is left out."""
    gate = tree.gates["west"]
    gate.delay_s = 2.5  # there and back: longer than a select may take
    assert tree.create("slow", 3) == {"ACTIVE"}
    gate.delay_s = 0.0
    assert tree.places()["slow"] == {"east": 3}
    tree.check_room()


def test_an_answer_to_a_build_that_is_lost(tree: FaultyTree) -> None:
    """After a lost answer to a build, the parent asks the child, so each instance exists once."""
    gate = tree.gates["west"]
    gate.lose(answer_of=BUILDS)
    assert tree.create("lost", WEST + DEEP) == {"ACTIVE"}
    assert gate.loses_answer_of is None
    assert tree.places()["lost"] == {"west": WEST, "deep": DEEP}
    tree.check_room()


def test_an_answer_to_a_build_that_is_late(tree: FaultyTree) -> None:
    """A late answer to a build is treated as lost, and does no harm when it arrives."""
    gate = tree.gates["west"]
    gate.hold(answers_of=BUILDS)
    ask = tree.begin("slow", WEST + DEEP)
    gate.wait()
    assert tree.statuses(ask) == {"ACTIVE"}
    gate.open()
    assert tree.places()["slow"] == {"west": WEST, "deep": DEEP}
    tree.check_room()


def test_a_build_that_comes_too_late(tree: FaultyTree) -> None:
    """A build that arrives after its instances were placed elsewhere is refused by the child."""
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
    """Return whether a build was refused; on a slow machine its assertion may have expired."""
    return b"withdrawn" in answer or answer.startswith(b"HTTP/1.1 401 ")
