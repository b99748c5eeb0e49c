"""A child that offers capacity it does not have, and whose answers are invalid."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.e2e.zones.conftest import EAST, WEST
from tests.e2e.zones.faulty_tree import FaultyTree, wait_until
from tests.e2e.zones.liar import NAME, Liar, Says, hugeness, lying, nonsense, offers, refusals

pytestmark = pytest.mark.timeout(300)

SELECTS: dict[str, Says] = {
    "nonsense": nonsense,
    "hugeness": hugeness,
    "no number": lambda asked: offers(asked, weight=None),
    "not a number": lambda asked: offers(asked, weight=float("nan")),
    "more than all": lambda asked: offers(asked, weight=float("inf")),
    "a long number": lambda asked: offers(asked, weight=10**400),
    "short blobs": lambda asked: offers(asked, blob_bytes=100),
    "long blobs": lambda asked: offers(asked, blob_bytes=4096),
    "odd characters": lambda asked: {**offers(asked), "select_id": "\ud800"},
    "no select": lambda asked: {**offers(asked), "select_id": ""},
    "a list": lambda _: b"[]",
    "depths": lambda _: b"[" * 20_000,
    "no text": lambda _: b'{"select_id":"\xff\xfe"}',
}
"""Answers to a select that contain no usable offers."""
BUILDS: dict[str, Says] = {
    "refuses": refusals,
    "withdrawn": lambda asked: refusals(asked, "withdrawn"),
    "does not know": lambda asked: refusals(asked, "unsettled"),
    "nonsense": nonsense,
    "hugeness": hugeness,
    "others": lambda asked: {**refusals(asked, None), "instances": [{"uuid": "x", "flaw": None}]},
    "fewer": lambda asked: {**refusals(asked, None), "instances": []},
    "another flaw": lambda asked: refusals(asked, "bad luck"),
}
"""Answers to a build after which nothing is built."""


@contextmanager
def lied_to(tree: FaultyTree) -> Generator[Liar]:
    """Make a false zone an active child of the root while the body runs, and yield it."""
    with lying() as liar, tree.root.client() as http:
        fields = {"name": NAME, "api_url": liar.url}
        answer = http.post("/zones", json={"zone": fields}).raise_for_status()
        try:
            wait_until(lambda: NAME in tree.root.active_children(), "the root ignores the liar")
            yield liar
        finally:
            http.delete(f"/zones/{answer.json()['zone']['id']}").raise_for_status()


def test_offers_that_are_none(tree: FaultyTree) -> None:
    """Invalid offers are left out, and the request is placed in another zone."""
    with lied_to(tree) as liar:
        for number, (what, says) in enumerate(SELECTS.items()):
            liar.says["select"] = says
            liar.asked.clear()
            assert tree.create(f"select{number}", 1) == {"ACTIVE"}, what
            assert "select" in liar.asked, what
            assert "build" not in liar.asked, what
        places = tree.places()
    assert sum(place.get("west", 0) for place in places.values()) == WEST
    tree.check_room()


def test_more_offers_than_were_asked_for(tree: FaultyTree) -> None:
    """Of too many offers, at most as many are tried as there are instances."""
    with lied_to(tree) as liar:
        liar.says["select"] = lambda asked: offers(asked, times=8)
        assert tree.create("more", 2) == {"ACTIVE"}
        assert liar.asked.count("build") <= 1
        assert tree.places()["more"] == {"west": 2}
    tree.check_room()


def test_offers_that_are_not_honoured(tree: FaultyTree) -> None:
    """Instances whose offers are not honoured take the next best places, each of them once."""
    with lied_to(tree) as liar:
        for number, (what, says) in enumerate(BUILDS.items()):
            liar.says["build"] = says
            liar.asked.clear()
            assert tree.create(f"build{number}", 2) == {"ACTIVE"}, what
            assert "build" in liar.asked, what
        places = tree.places()
    assert sum(place.get("west", 0) for place in places.values()) == WEST
    tree.check_room()


def test_more_than_the_honest_have(tree: FaultyTree) -> None:
    """A request that fits only with a liar's offers fails as a whole and leaves no holds."""
    with lied_to(tree):
        assert tree.create("much", tree.vcpus + 1) == {"ERROR"}
        assert tree.places()["much"] == {}
        tree.check_room()


def test_one_that_never_says_what_came_of_it(hasty_tree: FaultyTree) -> None:
    """A request that a child never settles fails as a whole, and later requests are placed."""
    tree = hasty_tree
    with lied_to(tree) as liar:
        liar.says["build"] = liar.says["release"] = nonsense
        assert tree.create("never", WEST) == {"ERROR"}
        liar.says["select"] = nonsense
        assert tree.create("then", EAST) == {"ACTIVE"}
    places = tree.places()
    assert places["never"] == {}
    assert places["then"] == {"west": WEST}
    tree.check_room()
