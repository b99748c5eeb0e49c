"""Liveness of hosts: heartbeats kept in memory, and shared between processes in batches.

A gateway notes the heartbeats of the agents that are connected to it, and stores them together
every few seconds in a report of its own, which is not a version of the ledger. Every process reads
the reports of all gateways into its host table. The number of reports therefore does not depend on
the number of hosts.

Silence is judged from observed time only. A process observes nothing before it starts, while it
stands still, and while it cannot exchange reports; of hosts whose gateway has stopped, it observes
nothing until they reach another gateway.
Hosts that were up when such a time began stay up, and have a full interval to report when it ends;
see docs/adr/0032-silence.md.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from berth.domain.errors import BerthError
from berth.domain.uuids import named_uuid
from berth.ports.clock import Clock
from berth.ports.ledger import HeartbeatReport, HeartbeatStore
from berth.ports.measures import HOSTS_UNCERTAIN, SCHEDULERS
from berth.ports.observer import NO_OBSERVER, Observer
from berth.ports.telemetry import Reading, Telemetry
from berth.services.replica.clock_watch import LOOK_INTERVAL_S, ClockWatch
from berth.services.replica.replica import Replica
from berth.services.replica.scheduler_reports import (
    CountReader,
    ReportedCounts,
    SchedulerReport,
)
from berth.services.replica.silence import SILENT_SHARE_MAX, Silence, judge_silence

SHARE_INTERVAL_S: Final = 5.0
"""At most this many seconds pass between two exchanges of heartbeats; see `interval_s`."""

# At least this many exchanges take place within the time after which a silent host is down.
_EXCHANGES_MIN: Final = 6
# A process or a gateway that has missed this many exchanges is cut off.
_MISSED_MAX: Final = 3
# A report contains the hosts that were heard from within this time, so that a process reading its
# first report learns when a now-silent host was last heard from.
_KEPT_S: Final = 3_600.0
_MS_PER_S: Final = 1_000
_DOWN_TIME_S: Final = 60.0
_PART_END: Final = ":"

SCHEDULING_PARTS: Final = frozenset({"scheduler", "up"})
"""The kinds of processes that schedule."""


@dataclass(frozen=True, slots=True)
class SilenceRules:
    """The rules for when silence means that hosts are down.

    Attributes:
        service_down_time_s: returns the seconds without a heartbeat after which a host is silent.
        share_max: the share of the hosts that may fall silent at once; see `judge_silence`.
    """

    service_down_time_s: Callable[[], float] = lambda: _DOWN_TIME_S
    share_max: float = SILENT_SHARE_MAX


@dataclass(slots=True)
class _Source:
    """A gateway whose reports are read.

    Attributes:
        number: the number of its newest report.
        read_ticks_s: the time when that report was read, by the monotonic clock.
        made_ticks_s: the time when that report was made; earlier only for reports that were old
            when this process started.
        reported: the counts in its reports, if it is a scheduler.
        is_lost: whether its reports stopped, so that its hosts were given time to find another
            gateway.
    """

    number: int = 0
    read_ticks_s: float = 0.0
    made_ticks_s: float = -math.inf
    is_lost: bool = False
    reported: ReportedCounts = field(default_factory=ReportedCounts)


def gateway_id(part: str, uuid: str, version: str = "") -> str:
    """Return the id under which a process shares heartbeats.

    Args:
        part: the kind of process (`scheduler`).
        uuid: a UUID that is new at each start of the process.
        version: the version of Berth that it runs.
    """
    return _PART_END.join((part, uuid, version) if version else (part, uuid))


class ProcessOfGateway(NamedTuple):
    """The kind of a process and its version of Berth, each empty if its id does not tell."""

    part: str
    version: str


def process_of(gateway: str) -> ProcessOfGateway:
    """Return what the id under which a process shares heartbeats tells of the process."""
    # Earlier versions used the UUID alone, and then the part and the UUID.
    part, end, rest = gateway.partition(_PART_END)
    return ProcessOfGateway(part, rest.partition(_PART_END)[2]) if end else ProcessOfGateway("", "")


def _part_of(gateway: str) -> str:
    return process_of(gateway).part


async def _no_counts() -> Mapping[str, int]:
    return {}


def _report_of(gateway: str, reported: ReportedCounts, age_s: float) -> SchedulerReport:
    part, _, rest = gateway.partition(_PART_END)
    scheduler = rest.partition(_PART_END)[0]
    return SchedulerReport(scheduler, part, age_s, reported.counts, reported.per_s())


class Liveness:
    """Knows when each host was last heard from, and whether its silence proves anything.

    It also knows which schedulers are alive: they store reports even without heartbeats of hosts.

    Args:
        store: exchanges the heartbeats with other processes.
        replica: contains the host table.
        clock: provides the time of day and a monotonic counter.
        telemetry: receives failed exchanges, times that were not observed, and uncertainty.
        gateway: the id of this process in the store, from `gateway_id`.
        rules: the rules by which silence means that hosts are down.
        observer: counts the heartbeats.
        counts: returns what this scheduler reports about itself.

    Attributes:
        silence: the silent hosts, as of the last look.
    """

    def __init__(  # noqa: PLR0913 - the collaborators and two values
        self,
        store: HeartbeatStore,
        replica: Replica,
        clock: Clock,
        telemetry: Telemetry,
        gateway: str,
        *,
        rules: SilenceRules = SilenceRules(),
        observer: Observer = NO_OBSERVER,
        counts: CountReader = _no_counts,
    ) -> None:
        self.silence = Silence()
        self._read_counts = counts
        self._own_counts = ReportedCounts()
        self._store = store
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry
        self._gateway = gateway
        self._rules = rules
        self._observer = observer
        self._clocks = ClockWatch(clock)
        # The Unix time of the last heartbeat that this process itself received from each host.
        self._heard_s: dict[str, float] = {}
        self._number = 0
        self._sources: dict[str, _Source] = {}
        # The gateway that was the last to hear from each host.
        self._via: dict[str, str] = {}
        # By the monotonic clock: the last exchange, and when any host was last heard from.
        self._exchanged_ticks_s: float | None = None
        self._heard_ticks_s: float | None = None
        self._is_failing = False

    @property
    def interval_s(self) -> float:
        """Seconds between two exchanges: 5, or less if hosts count as down within 30 seconds."""
        return min(SHARE_INTERVAL_S, self._rules.service_down_time_s() / _EXCHANGES_MIN)

    def note(self, host: str) -> None:
        """Note a heartbeat of a host; this process's host table shows it immediately."""
        # A step of the clock is noticed first. Otherwise, it would also shift the time of this
        # heartbeat, which is already read from the new clock.
        self._look()
        self._end_hush()
        now_s = self._heard_s[host] = self._clock.now_s()
        self._via.pop(host, None)
        self._replica.note_alive((host,), now_s)

    async def run(self) -> None:
        """Exchange heartbeats with other processes periodically, until cancelled."""
        self._clocks.look()
        self._clocks.is_regular = True
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._observe_always())
                group.create_task(self._share_always())
        finally:
            self._clocks.is_regular = False

    async def _observe_always(self) -> None:
        while True:
            await self._clock.sleep(LOOK_INTERVAL_S)
            self.observe()

    async def _share_always(self) -> None:
        while True:
            await self._clock.sleep(self.interval_s)
            try:
                await self.share()
            except BerthError as error:
                if not self._is_failing:
                    self._telemetry.failure("heartbeat_sharing_failed", error)
                self._is_failing = True
            else:
                self._is_failing = False

    async def share(self) -> None:
        """Store the heartbeats of this process, if it has any, and read those of others.

        Raises:
            UnavailableError: the store cannot be reached; the next exchange includes everything.
        """
        self._look()
        # An empty report still shows that the gateway is running and would hear its hosts, or that
        # the scheduler is running.
        if self._heard_s or self._schedules:
            await self._save()
        known = {gateway: source.number for gateway, source in self._sources.items()}
        reports = await self._store.heartbeats({**known, self._gateway: self._number})
        self._look()
        before_ticks_s, ticks_s = self._exchanged_ticks_s, self._clocks.ticks_s()
        self._exchanged_ticks_s = ticks_s
        if before_ticks_s is not None and any(report.seen_s for report in reports):
            self._end_hush()
        for report in reports:
            self._read(report, is_first=before_ticks_s is None)
        if before_ticks_s is None:
            self._begin(reports)
        elif self._is_cut_off(before_ticks_s, ticks_s):
            self._telemetry.event("heartbeat_sharing_resumed", after_s=ticks_s - before_ticks_s)
            self._renew(before_ticks_s)

    def observe(self) -> None:
        """Account for time that was not observed, and judge the silence of hosts."""
        self._look()
        exchanged, ticks_s = self._exchanged_ticks_s, self._clocks.ticks_s()
        if exchanged is not None and self._is_cut_off(exchanged, ticks_s):
            # Hosts need this only once half their time has passed, so most rows stay unchanged.
            self._renew(exchanged, age_min_s=self._rules.service_down_time_s() / 2)
        else:
            self._notice_lost_gateways(ticks_s)
        self._judge()

    def is_uncertain(self) -> bool:
        """Return whether so many hosts fell silent at once that their silence proves nothing."""
        self.observe()
        return self.silence.is_uncertain

    def read(self) -> list[Reading]:
        """Return the gauge that says whether the fleet is uncertain."""
        return [
            Reading(HOSTS_UNCERTAIN, float(self.silence.is_uncertain)),
            Reading(SCHEDULERS, self.schedulers),
        ]

    @property
    def schedulers(self) -> int:
        """The number of schedulers that are alive, including this process if it is one.

        While reports cannot be exchanged, the number stays as it was.
        """
        as_of_s = self._exchanged_ticks_s or 0.0
        return self._schedules + sum(
            _part_of(gateway) in SCHEDULING_PARTS
            and not self._is_cut_off(source.made_ticks_s, as_of_s)
            for gateway, source in self._sources.items()
        )

    def scheduler_reports(self) -> list[SchedulerReport]:
        """Return the schedulers that are alive, including this process if it is one, by id."""
        as_of_s, ticks_s = self._exchanged_ticks_s or 0.0, self._clocks.ticks_s()
        found = [
            _report_of(gateway, source.reported, ticks_s - source.made_ticks_s)
            for gateway, source in self._sources.items()
            if _part_of(gateway) in SCHEDULING_PARTS
            and not self._is_cut_off(source.made_ticks_s, as_of_s)
        ]
        if self._schedules:
            age_s = self._clock.now_s() - self._own_counts.number / _MS_PER_S
            found.append(_report_of(self._gateway, self._own_counts, max(age_s, 0.0)))
        return sorted(found, key=lambda one: (one.part, one.scheduler))

    @property
    def _schedules(self) -> bool:
        return _part_of(self._gateway) in SCHEDULING_PARTS

    def _is_cut_off(self, since_ticks_s: float, ticks_s: float) -> bool:
        return ticks_s - since_ticks_s > _MISSED_MAX * self.interval_s

    # --- reports ---

    async def _save(self) -> None:
        now_s = self._clock.now_s()
        self._heard_s = {h: at_s for h, at_s in self._heard_s.items() if now_s - at_s <= _KEPT_S}
        number = max(int(now_s * _MS_PER_S), self._number + 1)
        count = len(self._heard_s)
        try:
            counts = await self._read_counts()
            report = HeartbeatReport(self._gateway, number, dict(self._heard_s), counts)
            await self._store.save_heartbeats(report)
        except (BerthError, asyncio.CancelledError):
            self._observer.heartbeats(count, are_saved=False)
            raise
        self._number = number
        self._own_counts.note(number, counts)
        self._observer.heartbeats(count, are_saved=True)

    def _read(self, report: HeartbeatReport, *, is_first: bool) -> None:
        source = self._sources.setdefault(report.gateway, _Source())
        source.number, source.is_lost = report.number, False
        source.reported.note(report.number, report.counts)
        source.read_ticks_s = source.made_ticks_s = self._clocks.ticks_s()
        if is_first:
            # Its process may have ended long ago; reports are kept for a day.
            source.made_ticks_s -= max(0.0, self._clock.now_s() - report.number / _MS_PER_S)
        ahead_s = self._ahead_s(report, is_first=is_first)
        by_time: dict[float, list[str]] = defaultdict(list)
        for host, at_s in report.seen_s.items():
            at_here_s = at_s - ahead_s
            if at_here_s > self._replica.alive_s(host):
                self._via[host] = report.gateway
                by_time[at_here_s].append(host)
        for at_s, hosts in by_time.items():
            self._replica.note_alive(hosts, at_s)

    def _ahead_s(self, report: HeartbeatReport, *, is_first: bool) -> float:
        """Return the seconds by which the clock of a gateway is ahead of this process's.

        A report was stored a moment before it is read, except in the first exchange of this
        process. The age of those reports is unknown, but no heartbeat comes from the future.
        """
        now_s = self._clock.now_s()
        if is_first:
            return max(0.0, max(report.seen_s.values(), default=0.0) - now_s)
        ahead_s = report.number / _MS_PER_S - now_s
        return ahead_s if abs(ahead_s) > _MISSED_MAX * SHARE_INTERVAL_S else 0.0

    # --- time that was not observed ---

    def _look(self) -> None:
        """Notice a step of the clock or a pause, and give hosts an interval after it."""
        looked = self._clocks.look()
        if looked.step_s:
            self._telemetry.event("clock_stepped", seconds=round(looked.step_s, 1))
            self._shift(looked.step_s)
        if looked.pause_s:
            self._telemetry.event("process_paused", seconds=round(looked.pause_s, 1))
        if looked.step_s or looked.pause_s:
            self._renew(self._clocks.ticks_s() - looked.pause_s)

    def _begin(self, reports: Iterable[HeartbeatReport]) -> None:
        """Treat the time before the first exchange as not observed.

        The newest heartbeat shows until when some process has received heartbeats.
        """
        now_s = self._clock.now_s()
        newest_s = max((at_s for one in reports for at_s in one.seen_s.values()), default=now_s)
        self._renew(self._clocks.ticks_s() - max(0.0, now_s - newest_s))

    def _end_hush(self) -> None:
        """Note that a host was heard from.

        If no host was heard from for so long that all were silent, that time was not observed.
        """
        ticks_s, before_s = self._clocks.ticks_s(), self._heard_ticks_s
        self._heard_ticks_s = ticks_s
        if before_s is not None and ticks_s - before_s > self._rules.service_down_time_s():
            self._renew(before_s)

    def _notice_lost_gateways(self, ticks_s: float) -> None:
        """Give the hosts of gateways that no longer report an interval to find another one."""
        for gateway, source in self._sources.items():
            if not source.is_lost and self._is_cut_off(source.read_ticks_s, ticks_s):
                source.is_lost = True
                hosts = {host for host, via in self._via.items() if via == gateway}
                self._renew(source.read_ticks_s, hosts)

    def _renew(
        self, since_ticks_s: float, among: Container[str] | None = None, *, age_min_s: float = 0.0
    ) -> None:
        """Give hosts that were up at a given time a full interval from now.

        Args:
            since_ticks_s: that time, by the monotonic clock.
            among: the names of the hosts, or None for all.
            age_min_s: hosts whose last heartbeat is at most this many seconds old are left alone.
        """
        table, now_s = self._replica.hosts, self._clock.now_s()
        since_s, down_s = self._clocks.time_of(since_ticks_s), self._rules.service_down_time_s()
        seen_s = table.last_seen_s
        was_up = table.alive & table.is_served & (since_s - seen_s <= down_s)
        rows = np.flatnonzero(was_up & (now_s - seen_s > age_min_s))
        names = {table.name(int(row)) for row in rows}
        kept = names if among is None else {name for name in names if name in among}
        self._replica.note_alive(kept, now_s)

    def _shift(self, step_s: float) -> None:
        """Shift the times of heartbeats by a step of the clock.

        After a step all heartbeats seem to be old, or to lie in the future, although no host has
        fallen silent.
        """
        self._heard_s = {host: at_s + step_s for host, at_s in self._heard_s.items()}
        self._replica.shift_heartbeats(step_s)
        if step_s < 0 and self._number:
            # The numbers of reports are times and must increase, so this process takes a new id.
            self._sources[self._gateway] = _Source(self._number, is_lost=True)
            uuid = named_uuid(f"{self._gateway} {self._number}")
            part, version = process_of(self._gateway)
            self._gateway, self._number = gateway_id(part, uuid, version), 0

    def _judge(self) -> None:
        rules, before = self._rules, self.silence
        down_s = rules.service_down_time_s()
        self.silence = self._judged(down_s)
        if self.silence.is_uncertain and not before.is_uncertain:
            hosts, silent = self.silence.hosts, len(self.silence.at_once)
            self._telemetry.event("fleet_uncertain", hosts=hosts, silent=silent)
        elif before.is_uncertain and not self.silence.is_uncertain:
            self._telemetry.event("fleet_certain", hosts=self.silence.hosts)
            # The fault that silenced the hosts has ended, so those that are still silent also get
            # time to report.
            now_s, services = self._clock.now_s(), map(self._replica.service, before.at_once)
            silent_s = {one.host: now_s - one.last_seen_s for one in services if one is not None}
            late = [host for host, age_s in silent_s.items() if age_s > down_s]
            self._replica.note_alive(late, now_s)
            self.silence = self._judged(down_s)

    def _judged(self, down_s: float) -> Silence:
        table, now_s = self._replica.hosts, self._clock.now_s()
        return judge_silence(table, now_s, down_s, self._rules.share_max)
