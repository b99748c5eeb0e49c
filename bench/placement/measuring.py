"""Berth's Placement API and OpenStack Placement, measured in turns on the same providers."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from statistics import median
from typing import Any

from bench.cases import PlacementCases
from bench.errors import BenchError
from bench.placement import scenes
from bench.placement.driving import CONFLICT, Effort, Load, in_turn, put_load
from bench.placement.processor import resident_mib
from bench.placement.servers import Side, berth_side, real_side
from bench.placement.trials import Make, Scene, Trial, scenes_of
from bench.timing import Sample, percentile
from bench.turns import Ratio, ratio_of, take_turns

_WARM_UP_S = 0.3
_ANSWER_S = 300.0
_ONE = "host-3"
_ROUNDS_A_TURN = 5


class UnlikeError(BenchError):
    """The two sides answered the same request differently."""


@dataclass(frozen=True, slots=True)
class SideTimes:
    """One side in one case: medians of its turns; the percentiles are of all its operations.

    `server_cpu_ms` is the CPU time of its processes and PostgreSQL's per operation, `load_cpu_ms`
    that of the load. `conflicts` is the number of 409 answers, which do not count as operations.
    """

    operations: int
    per_s: float
    p50_ms: float
    p95_ms: float
    server_cpu_ms: float
    load_cpu_ms: float
    conflicts: int


@dataclass(frozen=True, slots=True)
class TrialTimes:
    """One case; `by_cpu` and `by_rate` are how many times better Berth is than OpenStack Placement.

    `resident_mib` is the memory of the larger of Berth's processes afterwards.
    """

    name: str
    scene: str
    clients: int
    resident_mib: float
    berth: SideTimes
    real: SideTimes | None = None
    by_cpu: Ratio | None = None
    by_rate: Ratio | None = None

    @property
    def ratio(self) -> Ratio | None:
        """The ratio that counts: by rate with several clients, by CPU time with one."""
        return self.by_rate if self.clients > 1 else self.by_cpu


@dataclass(frozen=True, slots=True)
class OneProvider:
    """Server CPU time of a request about one provider, in a fleet of `providers`.

    `ratio` is the median over the rounds of the ratio to the time in the smallest fleet.
    """

    providers: int
    server_cpu_us: float
    ratio: float


@dataclass(frozen=True, slots=True)
class SizeTimes:
    """The costs of large fleets; `resident_mib` is the memory of a process with `allocations`."""

    one_provider: tuple[OneProvider, ...]
    providers: int
    allocations: int
    resident_mib: float


@dataclass(frozen=True, slots=True)
class Turn:
    """One side's turn."""

    load: Load
    server_cpu_s: float

    @property
    def cost(self) -> Sample:
        """The server's CPU time per operation, and the median time that a client waited."""
        times_ms = self.load.times_ms
        return Sample(self.server_cpu_s * 1e6 / len(times_ms), median(times_ms) * 1e3)

    @property
    def pace(self) -> Sample:
        """The time from one operation to the next, over all clients."""
        pace_us = self.load.seconds * 1e6 / len(self.load.times_ms)
        return Sample(pace_us, pace_us)


def measure_beside(
    cases: PlacementCases, *, peer: bool, failed: Callable[[str], None]
) -> Iterator[TrialTimes]:
    """Yield the times of all cases, scene by scene; a failure does not stop the other cases.

    Args:
        cases: sizes and turns.
        peer: whether OpenStack Placement is also measured.
        failed: called with a text for each failure.
    """
    for scene in scenes_of(cases):
        try:
            with ExitStack() as stack:
                berth = stack.enter_context(berth_side(scene.nodes))
                real = stack.enter_context(real_side(scene.nodes)) if peer else None
                if real is not None:
                    _check_alike(scene, berth, real)
                for trial in scene.trials:
                    try:
                        yield _measure(scene, trial, (berth, real), cases)
                    except BenchError as error:
                        failed(f"{trial.name}: {error}")
        except BenchError as error:
            failed(f"{scene.name}: {error}")


def _measure(
    scene: Scene, trial: Trial, sides: tuple[Side, Side | None], cases: PlacementCases
) -> TrialTimes:
    berth, real = sides
    ours = _turns_of(berth, trial, cases.berth_s if trial.clients == 1 else cases.load_s)
    theirs = None
    if real is not None and trial.has_peer:
        theirs = _turns_of(real, trial, cases.real_s if trial.clients == 1 else cases.load_s)
    turns = cases.turns if trial.peer_turns is None else trial.peer_turns
    blocks, calls = take_turns(ours, theirs, turns)
    resident = round(max(map(resident_mib, berth.pids)), 1)
    times = TrialTimes(trial.name, scene.name, trial.clients, resident, summary(blocks))
    if not calls:
        return times
    return replace(
        times,
        real=summary(calls),
        by_cpu=ratio_of([one.cost for one in blocks], [one.cost for one in calls]),
        by_rate=ratio_of([one.pace for one in blocks], [one.pace for one in calls]),
    )


def _turns_of(side: Side, trial: Trial, seconds: float) -> Callable[[], Turn]:
    make = trial.begin()
    if trial.peer_turns is None:  # a call that takes half a minute is not warmed up
        _turn(side, make, Effort(trial.clients, _WARM_UP_S))
    return lambda: _turn(side, make, Effort(trial.clients, seconds))


def _turn(side: Side, make: Make, effort: Effort) -> Turn:
    before_s = side.meter.cpu_s()
    load = put_load(side.ports, make, effort)
    taken_s = side.meter.cpu_s() - before_s
    if not load.times_ms:
        raise BenchError(f"every answer was {CONFLICT}")
    return Turn(load, taken_s)


def summary(turns: Sequence[Turn]) -> SideTimes:
    """Return the medians of at least one turn."""
    times_ms = [one for turn in turns for one in turn.load.times_ms]
    load_ms = [1e3 * turn.load.cpu_s / len(turn.load.times_ms) for turn in turns]
    return SideTimes(
        operations=len(times_ms),
        per_s=round(1e6 / median(turn.pace.wall_us for turn in turns), 2),
        p50_ms=round(median(times_ms), 3),
        p95_ms=round(percentile(times_ms, 0.95), 3),
        server_cpu_ms=round(median(turn.cost.cpu_us for turn in turns) / 1e3, 4),
        load_cpu_ms=round(median(load_ms), 4),
        conflicts=sum(turn.load.conflicts for turn in turns),
    )


def measure_sizes(cases: PlacementCases) -> SizeTimes:
    """Return the costs of requests about one provider, by fleet size, and a process's memory."""
    with ExitStack() as stack:
        sides = {
            size: stack.enter_context(
                berth_side(
                    scenes.flat(size),
                    allocations=cases.standing if size == cases.weighed_at else 0,
                    processes=1,
                )
            )
            for size in cases.sizes
        }
        weighed = sides[cases.weighed_at]
        asked = (scenes.candidates(), scenes.candidates(narrowed=True), scenes.providers())
        put_load(weighed.ports, in_turn(asked), Effort(1, 3 * _WARM_UP_S))
        resident = max(map(resident_mib, weighed.pids))
        one = _one_provider(sides, cases)
    allocations = cases.weighed_at * cases.standing
    return SizeTimes(one, cases.weighed_at, allocations, round(resident, 1))


def _one_provider(sides: dict[int, Side], cases: PlacementCases) -> tuple[OneProvider, ...]:
    """Measure in rounds, each of which visits every fleet for a short time."""
    paths = tuple(
        f"/resource_providers/{scenes.uuid_of(_ONE)}/{what}"
        for what in ("inventories", "usages", "traits")
    )

    def costs(seconds: float) -> list[float]:
        effort = Effort(1, seconds)
        return [_turn(side, in_turn(paths), effort).cost.cpu_us for side in sides.values()]

    costs(_WARM_UP_S)
    rounds = [costs(cases.berth_s / 2) for _ in range(_ROUNDS_A_TURN * cases.turns)]
    return tuple(
        OneProvider(
            size,
            round(median(taken[place] for taken in rounds), 1),
            round(median(taken[place] / taken[0] for taken in rounds), 3),
        )
        for place, size in enumerate(sides)
    )


def _check_alike(scene: Scene, berth: Side, real: Side) -> None:
    for path in scene.alike:
        if canonical(_fetch(berth, path)) != canonical(_fetch(real, path)):
            raise UnlikeError(f"both sides answer {path} differently")


def _fetch(side: Side, path: str) -> object:
    connection = HTTPConnection("127.0.0.1", side.ports[0], timeout=_ANSWER_S)
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise BenchError(f"{path}: {answer.status} {body[:500]!r}")
    return json.loads(body)


def canonical(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return JSON without generations and with sorted lists."""
    if isinstance(value, dict):
        return {key: canonical(one) for key, one in value.items() if key != "generation"}
    if isinstance(value, list):
        return sorted(map(canonical, value), key=lambda one: json.dumps(one, sort_keys=True))
    return value
