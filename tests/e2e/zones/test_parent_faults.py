"""Parents killed between select and build, keys rotated there, and load during faults."""

import threading
import time

import pytest

from berth.config import zone_keys
from berth.lab.zone_process import ZoneProcess
from tests.e2e.zones.conftest import DEEP, EAST, WEST
from tests.e2e.zones.faulty_tree import Ask, FaultyTree, wait_until
from tests.e2e.zones.gate import BUILDS, SELECTS

pytestmark = pytest.mark.timeout(300)

CLIENTS = 3
KILLS = 3


def test_a_parent_killed_with_requests_on_their_way(tree: FaultyTree) -> None:
    """A request in the ledger is completed after a restart: west has not received it, east has.

    A request whose selection was not complete gets no answer and is placed nowhere.
    """
    west, east = tree.gates["west"], tree.gates["east"]
    west.hold(requests=BUILDS)
    east.hold(answers_of=BUILDS)
    tree.begin("split", WEST + DEEP + EAST)
    west.wait()
    east.wait()
    west.hold(requests=SELECTS)
    tree.begin("early", 2)
    west.wait()
    tree.root.kill()
    for gate in (west, east):
        gate.cut()
        gate.open()
    tree.root.start()
    tree.root.wait_until_ready()
    places = tree.places()
    assert sum(places["split"].values()) == WEST + DEEP + EAST
    assert places["early"] == {}
    split = tree.servers()
    assert {one["status"] for one in split} == {"ACTIVE"}
    assert len({one["id"] for one in split}) == WEST + DEEP + EAST
    tree.check_room()


def reads_of(zone: ZoneProcess, event: str) -> int:
    """Return how often a zone has logged an event."""
    return zone.log.read_text("utf-8", "replace").count(event)


def test_an_offer_outlives_the_key_that_sealed_it(tree: FaultyTree) -> None:
    """A build succeeds although the zone's keys were rotated after the select."""
    gate, west = tree.gates["west"], tree["west"]
    gate.hold(requests=BUILDS)
    ask = tree.begin("sealed", WEST)
    gate.wait()
    before = reads_of(west, "zone_keys_read")
    zone_keys.rotate(west.key_file)
    gate.hold_no_more()
    while reads_of(west, "zone_keys_read") == before:
        # The zone reads its key file when it seals an offer, but only once in a while.
        assert tree.create(f"other{len(tree.asks)}", 1) == {"ACTIVE"}
        time.sleep(0.5)
    gate.open()
    wait_until(lambda: gate.late, "the build was not answered")
    assert b"unreadable" not in b"".join(gate.late)
    assert tree.statuses(ask) == {"ACTIVE"}
    assert sum(tree.places()["sealed"].values()) == WEST
    tree.check_room()


def test_statements_are_believed_after_a_rotation(tree: FaultyTree) -> None:
    """Children accept a parent's next key; the one after that must be added to their files."""
    gate, root = tree.gates["west"], tree.root
    gate.hold(requests=BUILDS)
    ask = tree.begin("signed", 2)
    gate.wait()
    rotate(root)
    gate.open()
    assert tree.statuses(ask) == {"ACTIVE"}
    assert tree.create("next", 2) == {"ACTIVE"}
    rotate(root)
    wait_until(lambda: not root.active_children(), "the children still believe the root")
    assert tree.create("alone", 2) == {"ACTIVE"}
    public = zone_keys.public_text(root.key_file)
    for name in ("west", "east"):
        zone_keys.add_parent(tree[name].parents_file, root.name, public)
    wait_until(lambda: len(root.active_children()) == 2, "the children do not believe the root")
    assert tree.create("again", 2) == {"ACTIVE"}
    places = tree.places()
    assert places["alone"] == {"root": 2}
    assert places["next"] == places["again"] == {"west": 2}
    tree.check_room()


def rotate(zone: ZoneProcess) -> None:
    """Rotate a zone's keys, and wait until it has read them."""
    before = reads_of(zone, "zone_keys_read")
    zone_keys.rotate(zone.key_file)
    wait_until(lambda: reads_of(zone, "zone_keys_read") > before, "the new keys are not read")


def test_a_load_while_a_child_dies_again_and_again(tree: FaultyTree) -> None:
    """Every request is placed as a whole or not at all, and each instance is in one zone."""
    over = threading.Event()

    def ask(client: int) -> None:
        mine: list[Ask] = []
        while not over.is_set():
            mine.append(tree.begin(f"load{client}x{len(mine)}", 1 + (client + len(mine)) % 4))
            thread = mine[-1].thread
            assert thread is not None
            thread.join()
            if len(mine) % 3 == 0:
                forget(tree, mine[-2])

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for thread in clients:
        thread.start()
    try:
        for _ in range(KILLS):
            wait_for_more(tree)
            tree["west"].kill()
            wait_for_more(tree)
            tree["west"].start()
            tree["west"].wait_until_ready()
    finally:
        over.set()
        for thread in clients:
            thread.join()
    tree.places()
    tree.check_room()


def wait_for_more(tree: FaultyTree) -> None:
    """Wait until further requests have been made."""
    seen = len(tree.asks)
    wait_until(lambda: len(tree.asks) > seen + CLIENTS, "no further requests were made")


def forget(tree: FaultyTree, ask: Ask) -> None:
    """Delete the servers of a request; deletions may fail while a child is away."""
    ask.is_forgotten = True
    servers = tree.servers(reservation_id=ask.reservation_id)
    with tree.root.client(tree.root.tenant) as http:
        for one in servers:
            http.delete(f"/v2.1/servers/{one['id']}")
