"""A pytest plugin that leaves out the test files that a change cannot affect.

A test file whose tests all passed is left out until something that it needed changes: the code
that runs while a module within reach of its imports is imported, a function that ran, a file that
was read, or an installed package. `--everything` runs all files nevertheless. In both cases the run
is traced, and the files that pass are recorded.

Imports alone would select too much: many tests drive the whole scheduler, so a change to one
handler of the API would run every test of the API. Coverage tools know what ran, too, but they slow
every call down and do not know which files a test reads.
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
        """Everything that was traced so far."""
        return Traces(
            {path: needs_of(trace) for path, trace in self._files.items()},
            dict(self._seconds),
            needs_of(self._tracer.once).ran,
            sorted(self._partial),
        )

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Record the files of which some tests do not run."""
        self._partial.update(path_of(self._root, item.path) for item in items)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Charge a test file with what runs while it is imported."""
        self._rest()
        found = yield
        if collector.path.is_file():
            imported = self._tracer.take()
            # Python lists folders to find modules, so these are not needs of the test file.
            imported.read = {path for path in imported.read if not (self._root / path).is_dir()}
            self._trace_of(collector.path).add(imported)
        self._rest()
        return found

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Charge a test file with what runs during one of its tests and in its shared fixtures."""
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
        """Trace a fixture of a session or package apart, to charge it to each file that uses it."""
        if fixturedef.scope not in {"session", "package"}:
            return (yield)
        with self._tracer.apart(self._fixtures.setdefault(fixturedef.argname, Trace())):
            return (yield)

    def _trace_of(self, path: Path) -> Trace:
        return self._files.setdefault(path_of(self._root, path), Trace())

    def _rest(self) -> None:
        """Charge all files with what belongs to none, such as the import of a conftest.py."""
        self._tracer.once.add(self._tracer.take())


class Worker(Tracing):
    """Runs tests for a leading process and hands over what it traced."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        # pytest-xdist adds both attributes to the configuration of its workers.
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
    """Chooses the test files that run, here or in workers, and records those that pass."""

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
        """Return 0 workers for short runs; None leaves their number to pytest-xdist."""
        return 0 if self._choice.is_short else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:  # noqa: ANN401 - xdist has no types
        """Tell a worker which test files to leave out."""
        node.workerinput[_UNCHANGED] = sorted(self._choice.unchanged)

    def pytest_sessionstart(self) -> None:
        """Print how many files run."""
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(f"tests    {self._choice.summary}")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out what need not run."""
        return path_of(self._root, collection_path) in self._choice.unchanged or None

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Record the tests that a worker collected; all workers collect the same."""
        self._expect(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record the tests that this process collected."""
        self._expect(item.nodeid for item in session.items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file that cannot be imported."""
        if report.failed:
            self._run.failed.add(_file_of(report.nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record that a test has failed or has finished."""
        path = _file_of(report.nodeid)
        if report.failed:
            self._run.failed.add(path)
        elif report.when == "teardown":
            self._run.finished.setdefault(path, set()).add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - xdist has no types
        """Take over what a worker traced; a worker that crashed hands nothing over."""
        output = getattr(node, "workeroutput", {})
        if _TRACES in output:
            self._traced.append(msgspec.msgpack.decode(output[_TRACES], type=Traces))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Let a run without tests succeed if test files were left out."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._choice.unchanged:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_unconfigure(self) -> None:
        """Store which files passed."""
        self._choice.keep(self._run, [*self._traced, self.traces])

    def _expect(self, ids: Iterable[str]) -> None:
        for one in ids:
            self._run.expected.setdefault(_file_of(one), set()).add(one)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--everything`."""
    parser.addoption(
        "--everything", action="store_true", help="also run unchanged test files that passed before"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin to trace before a conftest.py is imported, so its imports are traced as well."""
    root = early_config.rootpath
    early_config.stash[_TRACER] = tracer = Tracer(TRACED, root, cache_of(root) / "bytecode")
    tracer.install()


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Register the part of the plugin that fits this process: worker or leader.

    The hook is a wrapper because it has to run before pytest-xdist asks for the number of workers.
    """
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(Worker(config) if is_worker else Leader(config))
    return (yield)


def path_of(root: Path, path: Path) -> str:
    """Return a path in the form that ids of tests use: relative to the root if it is below it."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]
