"""The report: results as tables."""

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.agents import AgentTimes
from bench.decisions import DecisionTimes
from bench.floors import Verdict
from bench.grouped import GroupedTimes
from bench.hosts import host_lines
from bench.kernel import KernelTimes
from bench.memory import MemoryUse
from bench.packing import PackingResult
from bench.pinned import PinnedTimes
from bench.placement.measuring import SideTimes, SizeTimes, TrialTimes
from bench.results import Results, batch_ratio, nova_size
from bench.schedulers import SchedulerTimes
from bench.shared_library import SharedTimes
from bench.timing import Times
from bench.turns import Ratio
from bench.zone_plans import plan_lines
from bench.zones import zone_lines

_WIDTH = 140
_MET = {True: Text("met", "green"), False: Text("not met", "bold red"), None: Text("not measured")}


def show(results: Results) -> None:
    """Print the tables to standard output."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print(Group(*_parts(results)))


def _parts(results: Results) -> Iterator[RenderableType]:
    machine = results.machine
    yield (
        f"Berth {machine.berth} {machine.commit}, Python {machine.python}, {machine.processor}, "
        f"{machine.cpus} CPUs, load average {machine.load_average} at the start"
    )
    if results.decisions:
        yield _decisions(results)
        if any(times.beside for times in results.decisions):
            yield _turns(results)
        yield _batches(results)
    if results.parity:
        yield _parity(results)
    if results.kernel is not None:
        yield _kernel(results.kernel)
    if results.grouped is not None:
        yield _grouped(results.grouped)
    if results.pinned is not None:
        yield _pinned(results.pinned)
    if results.memory is not None:
        yield _memory(results.memory)
    if results.library is not None or results.http is not None:
        yield _throughput(results)
    yield from _processes(results)
    if results.packing:
        yield _packing(results.packing)
    yield from _placement(results)
    for failure in results.failures:
        yield Text(f"FAILED: {failure}", "bold red")
    if results.floors:
        yield _floors(results.floors)


def _decisions(results: Results) -> Table:
    table = Table(title="Decisions: CPU time (wall time), medians")
    for heading in (
        "hosts", "first ever", "first of kind", "second", "warm", "mean", "p99", "argmax",
        "warm ÷ argmax",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for times in results.decisions:
        table.add_row(*_decision_row(times))
    return table


def _decision_row(times: DecisionTimes) -> Iterator[str]:
    warm = times.warm.decision
    yield f"{times.hosts:,}"
    yield duration(times.fresh.cpu_us)
    yield duration(times.cold.cpu_us)
    yield duration(times.second.cpu_us)
    yield _times(warm)
    yield duration(times.warm.mean_cpu_us)
    yield duration(times.warm.p99_cpu_us)
    yield duration(times.argmax.cpu_us)
    yield f"{_digits(warm.cpu_us / times.argmax.cpu_us)} ×"


def _turns(results: Results) -> Table:
    table = Table(title="Warm decisions in turns with Nova: CPU time (wall time), medians")
    for heading in ("hosts", "turns", "warm", "Nova sorted", "Nova ÷ warm (quartiles)"):
        table.add_column(heading, justify="right", no_wrap=True)
    for times in results.decisions:
        if times.beside is not None:
            warm, peer, ratio = times.beside.warm, times.beside.peer, times.beside.ratio
            turns = str(peer.samples)
            table.add_row(f"{times.hosts:,}", turns, _times(warm), _times(peer), _ratio(ratio))
    return table


def _batches(results: Results) -> Table:
    table = Table(title="Many instances in one request: CPU time (wall time), medians")
    for heading in ("hosts", "instances", "Berth", "for each", "Nova", "Nova ÷ Berth"):
        table.add_column(heading, justify="right", no_wrap=True)
    for times in results.decisions:
        for batch in times.batches:
            size = nova_size(results, times.hosts) if batch is times.batch else None
            about = "~" if size and size.batch.estimated else ""
            table.add_row(
                f"{times.hosts:,}",
                f"{batch.instances:,}",
                _times(batch.times),
                duration(batch.times.cpu_us / batch.instances),
                about + duration(size.batch.cpu_s * 1e6) if size else "–",
                f"{batch_ratio(times, size):,.0f} ×" if size else "–",
            )
    return table


def _kernel(times: KernelTimes) -> Table:
    table = Table(title=f"The engine's kernel, {times.hosts:,} hosts: warm, CPU time (wall)")
    for heading in ("with the kernel", "with numpy alone", "numpy ÷ kernel (quartiles)"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(_times(times.compiled), _times(times.numpy), _ratio(times.ratio))
    return table


def _grouped(grouped: GroupedTimes) -> Table:
    table = Table(title=f"Groups and aggregates, {grouped.hosts:,} hosts: warm, CPU time (wall)")
    for heading in ("what", "warm", "÷ plain"):
        table.add_column(heading, justify="right", no_wrap=True)
    for what, times in (
        ("plain", grouped.plain),
        ("soft anti-affinity group", grouped.group),
        ("aggregates, one multiplier", grouped.aggregates),
        ("both", grouped.both),
    ):
        table.add_row(what, _times(times), _digits(times.cpu_us / grouped.plain.cpu_us))
    return table


def _pinned(pinned: PinnedTimes) -> Table:
    peer = pinned.beside
    nova = "not measured" if peer is None else duration(peer.filter.cpu_us)
    passing = "" if peer is None else f", Nova {peer.passing:,}"
    table = Table(
        title=f"Pinned guest, {pinned.hosts:,} hosts of two NUMA cells, of which Berth lets pass "
        f"{pinned.passing:,}{passing}; Nova's filter: {nova}"
    )
    for heading in ("what", "Berth", "Nova's filter ÷ Berth"):
        table.add_column(heading, justify="right", no_wrap=True)
    for what, name in (
        ("filter, first call on a table", "keep_cold"),
        ("filter, again", "keep_warm"),
        ("first decision ever", "fresh"),
        ("warm decision", "warm"),
    ):
        ratio = _ratio(peer.ratios[name]) if peer else "–"
        table.add_row(what, _times(pinned.times[name]), ratio)
    return table


def _memory(use: MemoryUse) -> str:
    return (
        f"Memory, {use.hosts:,} hosts with {', '.join(use.classes)}: {use.table:,.0f} bytes a host "
        f"in the table, {use.columns:,.0f} of them in numpy columns, {use.varied:,.0f} if all "
        f"hosts differ; {use.cached_class} bytes a host for one more kind of request; "
        f"{use.attributes} bytes for the attributes of one of {use.instances:,} instances"
    )


def _times(times: Times) -> str:
    factor, unit = _unit(times.cpu_us)
    return f"{_digits(times.cpu_us / factor)} ({_digits(times.wall_us / factor)}) {unit}"


def _ratio(ratio: Ratio) -> str:
    return f"{_digits(ratio.median)} × ({_digits(ratio.low)}–{_digits(ratio.high)})"


def duration(us: float) -> str:
    """Return a duration in microseconds as a text with three digits and a unit."""
    factor, unit = _unit(us)
    return f"{_digits(us / factor)} {unit}"


def _unit(us: float) -> tuple[float, str]:
    for factor, unit in ((1.0, "µs"), (1e3, "ms")):
        if us / factor < 999.5:
            return factor, unit
    return 1e6, "s"


def _digits(value: float) -> str:
    places = 0 if value >= 99.5 else 1 if value >= 9.95 else 2
    return f"{value:,.{places}f}"


def _parity(results: Results) -> str:
    lines = [
        f"Same as Nova at {one.hosts:,} hosts: first {len(one.order)} hosts "
        f"{_yes(one.same_order)}, their weights {_yes(one.same_weights)}, "
        f"hosts of {one.batch_compared} instances in one request {_yes(one.same_batch)}"
        for one in results.parity
    ]
    missing = ", ".join(results.nova_weighers_missing) or "none"
    lines.append(f"Weighers of Nova that Berth does not have: {missing}")
    return "\n".join(lines)


def _yes(truth: bool) -> str:  # noqa: FBT001 - the only argument
    return "yes" if truth else "NO"


def _throughput(results: Results) -> Table:
    table = Table(title="Throughput: medians of rounds")
    table.add_column("what")
    for heading in ("per second", "best round", "CPU of each", "p50", "p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("under")
    library, http = results.library, results.http
    if library is not None:
        under = f"{library.hosts:,} hosts, {library.in_flight} in flight, SQLite"
        for what, per_s, best, cpu_us in (
            (
                "durable placements",
                library.placements_per_s,
                library.placements_per_s_best,
                library.placement_cpu_us,
            ),
            (
                "durable claims, bare",
                library.claims_per_s,
                library.claims_per_s_best,
                library.claim_cpu_us,
            ),
        ):
            table.add_row(what, f"{per_s:,.0f}", f"{best:,.0f}", duration(cpu_us), "", "", under)
        flushes = f"{library.flush_per_s:,.0f}"
        table.add_row("flushes of the disk", flushes, "", "", "", "", "4 KiB")
    if http is not None:
        cpu = "" if http.server_cpu_us is None else duration(http.server_cpu_us)
        under = f"{http.hosts:,} fake hosts, {http.clients} clients, SQLite"
        p50, p99 = duration(http.p50_ms * 1e3), duration(http.p99_ms * 1e3)
        rates = f"{http.creates_per_s:,.0f}", f"{http.creates_per_s_best:,.0f}"
        table.add_row("server creates, HTTP", *rates, cpu, p50, p99, under)
    return table


def _schedulers(results: Sequence[SchedulerTimes]) -> Iterator[Table]:
    if not results:
        return
    table = Table(title="Schedulers on one PostgreSQL ledger, called over RabbitMQ")
    for heading in (
        "contention", "hosts", "schedulers", "placed", "refused", "for contention", "placements/s",
        "to an echo", "to one", "CPU each", "conflicts/1,000", "retries/1,000",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for one in results:
        table.add_row(
            one.contention,
            f"{one.hosts:,}",
            str(one.schedulers),
            f"{one.placed:,}",
            f"{one.refused:,}",
            f"{one.contended:,}",
            f"{one.placements_per_s:,.0f}",
            f"{one.vs_echo:.2f}",
            f"{one.vs_one:.2f}",
            "" if one.cpu_us is None else duration(one.cpu_us),
            f"{one.conflicts:,.1f}",
            f"{one.retries:,.1f}",
        )
    yield table


def _shared_library(results: Sequence[SharedTimes]) -> Iterator[Table]:
    if not results:
        return
    table = Table(title="Processes that place through the library on one ledger, without a broker")
    for heading in (
        "ledger", "hosts", "processes", "placements/s", "CPU each", "to SQLite", "to one process",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for one in results:
        table.add_row(
            one.ledger,
            f"{one.hosts:,}",
            str(one.processes),
            f"{one.placements_per_s:,.0f}",
            duration(one.cpu_us),
            f"{one.vs_sqlite:.2f}",
            f"{one.vs_one:.2f}",
        )
    yield table


def _processes(results: Results) -> Iterator[RenderableType]:
    """Yield the results of measurements with several Berth processes."""
    yield from _shared_library(results.shared_library)
    yield from _schedulers(results.schedulers)
    yield from map(_agents, results.agents)
    for fleet in results.hosts:
        yield from host_lines(fleet)
    if results.zones is not None:
        yield from zone_lines(results.zones)
    yield from plan_lines(results.zone_plans)


def _agents(times: AgentTimes) -> str:
    return (
        f"Agents of {times.hosts:,} hosts, instances from the {times.source}: one scheduler uses "
        f"{times.cores:.3f} of a core. In {times.seconds:,.0f} s it received {times.heard:,} casts "
        f"({times.due:,} were due), {times.differed:,} of which differed, reloaded "
        f"{times.reloads:,} hosts, and placed {times.placed:,} instances"
    )


def _packing(found: Sequence[PackingResult]) -> Table:
    table = Table(title="Packing: means over seeds; openb | generator")
    table.add_column("policy", no_wrap=True)
    for heading in (
        "seeds", "GPUs @100 %", "final", "unrefused", "empty @50 %", "hosts needed",
        "| hosts needed", "unrefused", "empty", "GPUs",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    for one in found:
        table.add_row(
            one.policy,
            str(one.openb_seeds),
            _percent(one.at_100),
            _percent(one.final),
            _whole(one.openb_before_refusal),
            _percent(one.empty_at_50),
            _whole(one.openb_hosts_needed),
            _whole(one.hosts_needed),
            _whole(one.before_refusal),
            _percent(one.empty),
            _percent(one.gpus),
        )
    return table


def _placement(results: Results) -> Iterator[RenderableType]:
    if results.placement:
        yield _placement_trials(results.placement)
    if results.placement_sizes is not None:
        yield _placement_sizes(results.placement_sizes)


def _placement_trials(trials: Sequence[TrialTimes]) -> Table:
    table = Table(
        title="Placement API on PostgreSQL: p50 / p95 (CPU of the servers) in ms, operations/s; "
        "ratios are OpenStack Placement to Berth"
    )
    table.add_column("what", no_wrap=True)
    for heading in ("clients", "Berth", "/s", "real", "/s", "CPU", "time", "409"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in trials:
        table.add_row(
            one.name,
            str(one.clients),
            *_side(one.berth),
            *(_side(one.real) if one.real is not None else ("–", "–")),
            "–" if one.by_cpu is None else f"{_digits(one.by_cpu.median)} ×",
            "–" if one.by_rate is None else f"{_digits(one.by_rate.median)} ×",
            f"{one.berth.conflicts}" + (f" / {one.real.conflicts}" if one.real else ""),
        )
    return table


def _side(side: SideTimes) -> tuple[str, str]:
    times = f"{_digits(side.p50_ms)} / {_digits(side.p95_ms)}"
    return f"{times} ({_digits(side.server_cpu_ms)})", _digits(side.per_s)


def _placement_sizes(sizes: SizeTimes) -> str:
    one = ", ".join(
        f"{duration(one.server_cpu_us)} of {one.providers:,}" for one in sizes.one_provider
    )
    return (
        f"Placement API, requests about one provider: {one}; a process with {sizes.providers:,} "
        f"providers and {sizes.allocations:,} allocations holds {sizes.resident_mib:,.0f} MiB"
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %"


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _floors(verdicts: tuple[Verdict, ...]) -> Table:
    table = Table(title="Floors; a missed target does not fail the run")
    table.add_column("what")
    table.add_column("limit", justify="right")
    table.add_column("measured", justify="right")
    table.add_column("verdict")
    for verdict in verdicts:
        floor, measured = verdict.floor, verdict.measured
        sign, limit = ("≥", floor.at_least) if floor.at_most is None else ("≤", floor.at_most)
        table.add_row(
            f"{floor.name} (target)" if floor.target else floor.name,
            "" if limit is None else f"{sign} {_digits(limit)} {floor.unit}",
            "–" if measured is None else _digits(measured),
            _MET[verdict.met],
        )
    return table
