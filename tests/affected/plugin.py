"""A pytest plugin that leaves out the test files that a change cannot affect.

A test file whose tests all passed is left out until something changes that it needed: what runs
when a module is imported that it can reach by imports, a function that ran, a file that was read,
or what is installed. `--everything` runs all files nevertheless. Both ways the run is traced, and
what passed counts from then on.

Imports alone would not do: many tests drive the whole scheduler, so a change of one handler of the
API would run every test of the API. Coverage tools know what ran, too, but slow every call down,
and know nothing of the files that a test reads.
"""

import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.affected.choosing import Choice, Run
from tests.affected.passes import Traces, needs_of
from tests.affected.project import TRACED, cache_of
from tests.affected.tracing import Trace, Tracer

_UNCHANGED: Final = "affected_unchanged"
_TRACES: Final = "affected_traces"

_NOTHING: Final = Trace()

_TRACER: Final = pytest.StashKey[Tracer]()


class Tracing:
    """Traces the tests that this process runs."""

    def __init__(self, config: pytest.Config) -> None:
        self._root = config.rootpath
        self._tracer = config.stash[_TRACER]
        self._files: dict[str, Trace] = {}
        self._fixtures: dict[str, Trace] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._partial: set[str] = set()

    @property
    def traces(self) -> Traces:
        """What was traced until now."""
        return Traces(
            {path: needs_of(trace) for path, trace in self._files.items()},
            dict(self._seconds),
            needs_of(self._tracer.once).ran,
            sorted(self._partial),
        )

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Note files of which some tests do not run."""
        self._partial.update(path_of(self._root, item.path) for item in items)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Count for a test file what runs while it is imported."""
        self._rest()
        found = yield
        if collector.path.is_file():
            imported = self._tracer.take()
            # Python lists folders when it looks for a module, which no test asked for.
            imported.read = {path for path in imported.read if not (self._root / path).is_dir()}
            self._trace_of(collector.path).add(imported)
        self._rest()
        return found

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count for a test file what runs during one of its tests."""
        self._rest()
        started = time.process_time()
        done = yield
        trace = self._trace_of(item.path)
        trace.add(self._tracer.take())
        for name in getattr(item, "fixturenames", ()):
            trace.add(self._fixtures.get(name, _NOTHING))
        self._seconds[path_of(self._root, item.path)] += time.process_time() - started
        return done

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: "pytest.FixtureDef[object]"
    ) -> Generator[None, object, object]:
        """Count for all test files that use it what a fixture does that several share."""
        if fixturedef.scope not in {"session", "package"}:
            return (yield)
        with self._tracer.apart(self._fixtures.setdefault(fixturedef.argname, Trace())):
            return (yield)

    def _trace_of(self, path: Path) -> Trace:
        return self._files.setdefault(path_of(self._root, path), Trace())

    def _rest(self) -> None:
        """Count for all what belongs to no test file, such as the import of a conftest.py."""
        self._tracer.once.add(self._tracer.take())


class Worker(Tracing):
    """Runs tests for another process, and hands over what it traced."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        # pytest-xdist adds both to the configuration of its workers.
        given: dict[str, Any] = vars(config)["workerinput"]
        self._output: dict[str, Any] = vars(config)["workeroutput"]
        self._unchanged = frozenset(given[_UNCHANGED])

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out what need not run."""
        return path_of(self._root, collection_path) in self._unchanged or None

    def pytest_sessionfinish(self) -> None:
        """Hand over what was traced."""
        self._output[_TRACES] = msgspec.msgpack.encode(self.traces)


class Leader(Tracing):
    """Chooses the test files that run, here or in other processes, and keeps which passed."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        self._config = config
        base = config.invocation_params.dir
        self._choice = Choice(
            self._root,
            [base / _file_of(one) for one in config.args],
            everything=config.getoption("everything"),
        )
        self._run = Run()
        self._run.partial.update(
            path_of(self._root, base / _file_of(one)) for one in config.args if "::" in one
        )
        self._traced: list[Traces] = []

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_xdist_auto_num_workers(self) -> int | None:
        """Stay in this process for few tests; None leaves the number to pytest-xdist."""
        return 0 if self._choice.is_short else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:  # noqa: ANN401 - xdist has no types
        """Tell another process what to leave out."""
        node.workerinput[_UNCHANGED] = sorted(self._choice.unchanged)

    def pytest_sessionstart(self) -> None:
        """Say how much is left out."""
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(f"tests    {self._choice.summary}")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out what need not run."""
        return path_of(self._root, collection_path) in self._choice.unchanged or None

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Note which tests another process found; all find the same."""
        self._expect(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which tests this process found."""
        self._expect(item.nodeid for item in session.items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be imported."""
        if report.failed:
            self._run.failed.add(_file_of(report.nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that has failed, or has come to its end."""
        path = _file_of(report.nodeid)
        if report.failed:
            self._run.failed.add(path)
        elif report.when == "teardown":
            self._run.finished.setdefault(path, set()).add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - xdist has no types
        """Take what another process traced; one that crashed hands nothing over."""
        output = getattr(node, "workeroutput", {})
        if _TRACES in output:
            self._traced.append(msgspec.msgpack.decode(output[_TRACES], type=Traces))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Call a run without tests a success when all of them are left out."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._choice.unchanged:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_unconfigure(self) -> None:
        """Keep what has passed."""
        self._choice.keep(self._run, [*self._traced, self.traces])

    def _expect(self, ids: Iterable[str]) -> None:
        for one in ids:
            self._run.expected.setdefault(_file_of(one), set()).add(one)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--everything`."""
    parser.addoption(
        "--everything", action="store_true", help="run test files that no change can affect, too"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Trace from here on: what a conftest.py imports is traced as well."""
    root = early_config.rootpath
    early_config.stash[_TRACER] = tracer = Tracer(TRACED, root, cache_of(root) / "bytecode")
    tracer.install()


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Choose test files, or run those that another process has chosen.

    A wrapper comes before pytest-xdist, which asks at this point how many processes there shall be.
    """
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(Worker(config) if is_worker else Leader(config))
    return (yield)


def path_of(root: Path, path: Path) -> str:
    """Return a path as it is in the ids of tests: below the root."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]
