"""The demo: a simulated fleet, a service in its own process, and a replay against it."""

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from rich.console import Console

from berth.adapters.virt.fake import FakeHost
from berth.cli.demo.replay_view import progress_bar, save_picture, show_report
from berth.cli.output import print_json
from berth.client import NO_RETRIES, Client, ClientError
from berth.domain.errors import InvalidInputError, UnavailableError
from berth.domain.inventory.resources import Inventory
from berth.lab.generator import GeneratorSettings, generate
from berth.lab.loopback import free_port
from berth.lab.openb import read_openb
from berth.lab.report import ReplayReport
from berth.lab.service_client import ServiceConnection
from berth.lab.workload import Workload
from berth.lab.workload_replay import DEVICE_PREFIX, ReplayOptions, replay
from berth.ports.virt import ChildReport

# Maximum seconds for the service to register all hosts, and to stop before it is killed.
_START_S = 90.0
_STOP_S = 20.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the demo, which replays a published trace or a generated workload.

    `trace` is the folder of the trace and `variant` its pod list; without a trace, `settings`
    determine the workload. `limit` is the maximum number of requests. `keep` leaves the service
    running and its data in place afterwards, and `picture` is the file for a picture of the
    summary.
    """

    trace: Path | None = None
    variant: str = "default"
    settings: GeneratorSettings = field(default_factory=GeneratorSettings)
    limit: int | None = None
    keep: bool = False
    as_json: bool = False
    picture: Path | None = None


def run_demo(options: DemoOptions) -> ReplayReport:
    """Start a service, replay a workload against it, print the summary, and return the report.

    The service is stopped afterwards unless `keep` is set.

    Raises:
        OpenbTraceError: the trace cannot be read.
        UnavailableError: the service did not start, or ended during the replay.
    """
    # The service is a process of its own, so that the client's work does not distort its
    # latencies.
    console = _console(as_json=options.as_json)
    workload = _workload(options)
    folder = Path(tempfile.mkdtemp(prefix="berth-demo-"))
    url = f"http://127.0.0.1:{free_port()}"
    command = _command(options, workload, folder, url)
    console.print(f"Starting Berth with {len(workload.hosts):,} hosts: API at {url}")
    replaying = ReplayOptions(key="demo", limit=options.limit, until_s=_until_s(options))
    try:
        with _service(command, folder, url, len(workload.hosts), keep=options.keep) as pid:
            report = asyncio.run(
                watched_replay(workload, ServiceConnection(url), replaying, as_json=options.as_json)
            )
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print_report(report, as_json=options.as_json)
    if options.picture is not None:
        save_picture(report, options.picture)
    _tell_how_to_go_on(console, options, url, pid)
    return report


async def watched_replay(
    workload: Workload, connection: ServiceConnection, options: ReplayOptions, *, as_json: bool
) -> ReplayReport:
    """Replay a workload and return the report.

    The progress bar goes to standard error if `as_json` is set.

    Raises:
        UnavailableError: the service did not answer within the client's retries.
        ServiceError: the service refused a request.
        TimeoutError: a decision or a deletion took longer than a minute.
    """
    arrivals = len(workload.arrivals)
    total = arrivals if options.limit is None else min(options.limit, arrivals)
    with progress_bar(_console(as_json=as_json), total) as progress:
        return await replay(workload, connection, options, progress)


def print_report(report: ReplayReport, *, as_json: bool) -> None:
    """Print the summary as text or as JSON."""
    if as_json:
        print_json(report)
    else:
        show_report(_console(as_json=False), report)


def read_workload(trace: Path | None, variant: str, file: Path | None) -> Workload:
    """Read a workload from the folder of a trace, or else from a JSON file.

    Raises:
        OpenbTraceError: the trace cannot be read.
        InvalidInputError: the file is not a workload, or neither source is given.
    """
    if trace is not None:
        return read_openb(trace, variant=variant)
    if file is None:
        raise InvalidInputError(
            "workload", "is missing; give the folder of a trace or a workload file"
        )
    try:
        return msgspec.json.decode(file.read_bytes(), type=Workload)
    except msgspec.DecodeError as error:
        raise InvalidInputError(str(file), f"is not a valid workload: {error}") from error


def _console(*, as_json: bool) -> Console:
    return Console(stderr=as_json, highlight=False)


def _workload(options: DemoOptions) -> Workload:
    if options.trace is not None:
        return read_openb(options.trace, variant=options.variant)
    return generate(options.settings)


def _until_s(options: DemoOptions) -> float | None:
    return options.settings.end_s if options.trace is None else None


def _fleet_file(workload: Workload, folder: Path) -> Path:
    fleet = [
        FakeHost(
            name=host.name,
            totals=host.amounts,
            traits=frozenset(host.traits),
            children=tuple(
                ChildReport(f"{DEVICE_PREFIX}{number}", _inventories(device))
                for number, device in enumerate(host.devices)
            ),
        )
        for host in workload.hosts
    ]
    path = folder / "fleet.json"
    path.write_bytes(msgspec.json.encode(fleet))
    return path


def _inventories(amounts: Mapping[str, int]) -> dict[str, Inventory]:
    return {name: Inventory(total) for name, total in amounts.items()}


def _command(options: DemoOptions, workload: Workload, folder: Path, url: str) -> list[str]:
    fleet = _fleet_file(workload, folder)
    listen = url.removeprefix("http://")
    command = [sys.executable, "-m", "berth.cli.main", "up", "--listen", listen]
    command += ["--data", str(folder / "data"), "--fleet", str(fleet)]
    # The trace counts CPUs in thousandths, for which the policy `openb` is made.
    return command if options.trace is None else [*command, "--policy", "openb"]


@contextmanager
def _service(
    command: list[str], folder: Path, url: str, hosts: int, *, keep: bool
) -> Generator[int]:
    """Run the service while the body runs, or beyond it with `keep`; yield its process id."""
    log = folder / "berth.log"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            # A kept service gets its own session, in which it survives Ctrl-C and the end of the
            # terminal.
            start_new_session=keep,
        )
    finished = False
    try:
        _wait_until_ready(process, url, hosts, log)
        yield process.pid
        finished = True
    finally:
        # A service whose replay failed is stopped even with `keep`.
        if not (keep and finished):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, hosts: int, log: Path) -> None:
    deadline_s = time.monotonic() + _START_S
    with Client(url, timeout_s=5.0, retries=NO_RETRIES) as berth:
        while time.monotonic() < deadline_s and process.poll() is None:
            # An API that answers is not enough: requests before the last host has registered would
            # be refused, and the results would depend on timing.
            with suppress(ClientError):
                if berth.status().hosts.total >= hosts:
                    return
            time.sleep(0.1)
    tail = log.read_text("utf-8", "replace")[-2000:]
    raise UnavailableError(
        f"the service ended, or did not register all hosts in time; its log ends with:\n{tail}"
    )


def _tell_how_to_go_on(console: Console, options: DemoOptions, url: str, pid: int) -> None:
    if options.keep:
        lines = [
            f"Berth is still running at {url}. To explore it:",
            f"  export BERTH_URL={url}",
            "  berth host list; berth server list; berth explain REQUEST-ID",
            f"To stop it: kill {pid}",
        ]
    else:
        again = "make demo DEMO_ARGS=--keep"
        if options.trace is not None:
            again = f"make demo TRACE={options.trace} DEMO_ARGS=--keep"
        lines = [
            f"Berth was stopped. To keep it running and explore it: {again}",
            "To start your own: berth up --data DIR --fake-hosts 10",
        ]
    for line in lines:
        console.print(line, soft_wrap=True)
