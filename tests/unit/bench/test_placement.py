"""The Placement benchmark, as far as it needs neither a server nor a database."""

import itertools
import json
import os
import random
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from bench.cases import load_cases
from bench.command import parse_arguments
from bench.floors import load_floors
from bench.placement import driving, scenes
from bench.placement.driving import (
    Answer,
    Effort,
    Load,
    LoadError,
    claim_request,
    consumers,
    get,
    one_candidate,
    put_load,
    schedule,
)
from bench.placement.furnishing import furnish_berth, provider_of, rows_of
from bench.placement.measures import placement_measures
from bench.placement.measuring import (
    OneProvider,
    SideTimes,
    SizeTimes,
    TrialTimes,
    Turn,
    canonical,
    summary,
)
from bench.placement.processor import Meter, cpu_s, resident_mib
from bench.placement.trials import scenes_of
from bench.turns import Ratio

_UUID = scenes.uuid_of("host-1")
_CANDIDATES = json.dumps(
    {"allocation_requests": [{"allocations": {_UUID: {"resources": {"VCPU": 1}}}, "mappings": {}}]}
).encode()


@contextmanager
def _server(statuses: list[bytes], *, keeps: bool) -> Iterator[tuple[int, list[int]]]:
    """Yield the port of a server that answers with these statuses, and the client ports it saw."""
    endless, seen = itertools.cycle(statuses), list[int]()
    ending = b"" if keeps else b"Connection: close\r\n"

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline():
                if line != b"\r\n":
                    continue
                seen.append(self.client_address[1])
                head = b"HTTP/1.1 " + next(endless) + b"\r\nContent-Length: 0\r\n"
                self.wfile.write(head + ending + b"\r\n")
                if not keeps:
                    return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1], seen
        finally:
            server.shutdown()
            thread.join()


def test_placement_is_a_part_of_its_own() -> None:
    """The part can be selected alone, without the real Placement."""
    options = parse_arguments(["--only", "placement", "--quick", "--no-peer"])
    assert options.parts == ("placement",)
    assert not options.placement
    assert options.cases.placement.turns == 1


@pytest.mark.parametrize("nodes", [scenes.flat(30), scenes.nested(3), scenes.wide()])
def test_parents_come_before_their_children(nodes: tuple[scenes.Node, ...]) -> None:
    """Each provider comes once and after its parent, as both databases require."""
    seen: set[str] = set()
    for node in nodes:
        assert node.parent is None or node.parent in seen
        assert node.uuid not in seen
        seen.add(node.uuid)


def test_trees_have_seven_providers() -> None:
    """A tree has a root, two cells, and two devices in each cell."""
    nodes = scenes.nested(2)
    assert len(nodes) == 2 * scenes.TREE
    assert len([node for node in nodes if node.parent is None]) == 2


def test_both_sides_get_the_same_providers() -> None:
    """The rows for Placement's database match the records of Berth."""
    nodes = (*scenes.flat(3), *scenes.nested(1))
    names = sorted({name for node in nodes for name in node.totals})
    classes = {name: 10 + number for number, name in enumerate(names)}
    rows = rows_of(nodes, classes, {scenes.TRAIT: 5})
    by_id = {row["id"]: row for row in rows["resource_providers"]}
    for node, row in zip(nodes, rows["resource_providers"], strict=True):
        record = provider_of(node)
        assert row["uuid"] == record.uuid
        parent = by_id.get(row["parent_provider_id"])
        assert (parent["uuid"] if parent else None) == record.parent_uuid
        assert by_id[row["root_provider_id"]]["parent_provider_id"] is None
        stocks = [one for one in rows["inventories"] if one["resource_provider_id"] == row["id"]]
        assert {one["resource_class_id"]: one["total"] for one in stocks} == {
            classes[name]: one.total for name, one in record.inventories.items()
        }
        assert {one["allocation_ratio"] for one in stocks} == {
            one.allocation_ratio for one in record.inventories.values()
        }
    assert len(rows["resource_provider_traits"]) == sum(len(node.traits) for node in nodes)
    assert len(rows["resource_provider_aggregates"]) == sum(len(node.aggregates) for node in nodes)


def test_a_ledger_takes_them_with_their_allocations() -> None:
    """A memory ledger accepts all providers and allocations."""
    furnish_berth("memory:", (*scenes.flat(3), *scenes.nested(1)), allocations=0)
    furnish_berth("memory:", scenes.flat(2), allocations=3)


def test_all_cases_of_the_issue_are_there() -> None:
    """Each of the 14 floors relative to the real Placement is about a case."""
    names = {
        f"placement.{trial.name}"
        for scene in scenes_of(load_cases(quick=False).placement)
        for trial in scene.trials
    }
    about = {
        floor.measure.removesuffix(".vs_real")
        for floor in load_floors()
        if floor.measure.startswith("placement.") and floor.measure.endswith(".vs_real")
    }
    assert about <= names
    assert len(about) == 14


def test_a_claim_is_a_whole_request() -> None:
    """The claim has the length of its body and expects no existing consumer."""
    head, _, body = claim_request(_UUID, "consumer").partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /allocations/consumer HTTP/1.1\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body)["consumer_generation"] is None


def test_consumers_are_the_same_in_every_run_and_differ() -> None:
    """Consumers depend only on their prefix and all differ."""
    left, again, other = consumers("a"), consumers("a"), consumers("b")
    first = next(left)
    assert first == next(again)
    assert len({first, next(left), next(other)}) == 3


def test_scheduling_claims_one_of_the_candidates() -> None:
    """The second request claims on the provider that the first answer names."""
    operation = schedule("/allocation_candidates", "consumer", random.Random(1))
    assert next(operation).startswith(b"GET /allocation_candidates ")
    assert _UUID.encode() in operation.send(Answer(200, _CANDIDATES))
    with pytest.raises(StopIteration):
        operation.send(Answer(204, b""))


def test_an_answer_without_candidates_is_an_error() -> None:
    """An answer without candidates raises a LoadError."""
    with pytest.raises(LoadError):
        one_candidate(b'{"allocation_requests": []}', random.Random(0))


@pytest.mark.parametrize("keeps", [True, False])
def test_the_load_speaks_to_servers_that_keep_connections_or_not(
    monkeypatch: pytest.MonkeyPatch, *, keeps: bool
) -> None:
    """The load works with and without kept connections and counts conflicts separately."""
    # The simulated clock leaves time for some operations on the slowest machine.
    clock = SimpleNamespace(perf_counter=itertools.count(0.0, 0.01).__next__)
    clock.process_time = clock.perf_counter
    monkeypatch.setattr(driving, "time", clock)
    with _server([b"204 No Content", b"409 Conflict"], keeps=keeps) as (port, seen):
        load = put_load((port,), lambda: get("/"), Effort(1, 0.05))
    assert load.times_ms
    assert load.conflicts
    assert load.seconds > 0
    assert (len(set(seen)) == 1) is keeps


def test_any_other_answer_ends_the_load() -> None:
    """An unexpected status raises a LoadError that names it."""
    with _server([b"500 Oh"], keeps=True) as (port, _), pytest.raises(LoadError, match="500"):
        put_load((port,), lambda: get("/"), Effort(1, 0.05))


def test_summaries_are_medians_of_turns() -> None:
    """Rates are medians of the turns, and percentiles cover all operations."""
    turns = [
        Turn(Load(seconds=1.0, cpu_s=0.1, times_ms=[1.0, 3.0], conflicts=1), 0.2),
        Turn(Load(seconds=1.0, cpu_s=0.1, times_ms=[2.0, 2.0]), 0.4),
        Turn(Load(seconds=2.0, cpu_s=0.1, times_ms=[2.0, 9.0]), 0.4),
    ]
    found = summary(turns)
    assert found.operations == 6
    assert found.per_s == 2.0
    assert found.p95_ms == 9.0
    assert found.server_cpu_ms == 200.0
    assert found.conflicts == 1


def test_measures_take_throughput_for_many_clients_and_cpu_time_for_one() -> None:
    """The ratio to the real Placement is CPU time for one client and throughput for many."""
    side = SideTimes(10, 5.0, 1.0, 2.0, 3.0, 0.1, 0)
    slow = SideTimes(10, 5.0, 1.0, 2.0, 6.0, 0.1, 0)
    cpu, rate = Ratio(30.0, 29.0, 31.0), Ratio(12.0, 11.0, 13.0)
    trials = [
        TrialTimes("candidates_5", "5 hosts", 1, 90.0, side, side, cpu, rate),
        TrialTimes("claims_hot", "5 hosts", 16, 90.0, side, side, cpu, rate),
        TrialTimes("wide_6", "wide", 1, 90.0, side),
        TrialTimes("wide_8", "wide", 1, 90.0, slow),
    ]
    sizes = SizeTimes(
        (OneProvider(100, 50.0, 1.0), OneProvider(1_000, 55.0, 1.1)), 1_000, 10_000, 99.5
    )
    measures = placement_measures(trials, sizes)
    assert measures["placement.candidates_5.vs_real"] == 30.0
    assert measures["placement.claims_hot.vs_real"] == 12.0
    assert measures["placement.claims_hot.cpu_vs_real"] == 30.0
    assert measures["placement.claims_hot.conflicts"] == 0
    assert measures["placement.wide_8_vs_6"] == 2.0
    assert measures["placement.one_provider.1000_vs_100"] == 1.1
    assert measures["placement.resident_mib"] == 99.5
    assert "placement.wide_6.vs_real" not in measures


def test_answers_are_compared_without_order_and_generations() -> None:
    """Two answers that differ only in order and generations are equal."""
    left = {"a": [{"b": 1, "generation": 3}, {"b": 2}], "c": [2, 1]}
    assert canonical(left) == canonical({"c": [1, 2], "a": [{"b": 2}, {"b": 1, "generation": 0}]})
    assert canonical(left) != canonical({"c": [1], "a": left["a"]})


def test_a_meter_counts_what_a_process_took() -> None:
    """The meter sees the CPU time of this process; a missing process has None."""
    meter = Meter((os.getpid(),), "no_such_database")
    before_s = meter.cpu_s()
    sum(range(2_000_000))
    assert meter.cpu_s() > before_s
    assert cpu_s(2**22 + 1) is None
    assert resident_mib(os.getpid()) > 1
