"""Tracing of executed functions and read files, with a package made for these tests."""

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.affected.tracing import Trace, Tracer

PACKAGE = "traced_berth"
MODULE = '''"""A module."""

from functools import cache


def made(number):
    return number


LIMIT = made(1)


def outer():
    """Call an inner function."""
    def inner():
        return 1
    return inner


@cache
def kept():
    return used()


def used():
    return 2


class Kind:
    def method(self):
        yield 1
'''
NAMES = ("made", "outer", "kept", "used", "method")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the package and return the checkout."""
    package = tmp_path / "src" / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    return tmp_path


@pytest.fixture
def tracer(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracer]:
    """Yield a tracer of the package, which is unloaded after the test."""
    tracer = Tracer(PACKAGE, root, root / ".cache")
    monkeypatch.setattr(sys, "meta_path", [tracer, *sys.meta_path])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield tracer
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def module() -> ModuleType:
    """Import the traced module and return it."""
    return importlib.import_module(f"{PACKAGE}.module")


def names_of(trace: Trace) -> set[str]:
    """Return the names of the functions that ran."""
    bits = trace.ran.get(f"{PACKAGE}.module", 0)
    return {name for number, name in enumerate(NAMES) if bits >> number & 1}


def test_what_runs_is_traced_until_it_is_taken(tracer: Tracer) -> None:
    """`take` returns the functions that ran and starts a new trace."""
    module().used()
    assert names_of(tracer.take()) == {"used"}
    assert names_of(tracer.take()) == set()


def test_what_runs_at_import_runs_once(tracer: Tracer) -> None:
    """A function that runs at import is listed in `once`, not in the trace of the test."""
    module()
    assert names_of(tracer.take()) == set()
    assert names_of(tracer.once) == {"made"}


def test_what_fills_a_cache_runs_once(tracer: Tracer) -> None:
    """A cached function is listed in `once`, together with the functions that it calls."""
    found = module()
    assert found.kept() == found.kept() == 2
    assert names_of(tracer.take()) == set()
    assert names_of(tracer.once) == {"made", "kept", "used"}


def test_a_function_within_another_counts_as_the_outer_one(tracer: Tracer) -> None:
    """A nested function counts as its outer function, even if it runs later."""
    inner = module().outer()
    tracer.take()
    inner()
    assert names_of(tracer.take()) == {"outer"}


def test_a_generator_runs_when_it_is_asked(tracer: Tracer) -> None:
    """A generator is traced when it is iterated, not when it is created."""
    made = module().Kind().method()
    assert names_of(tracer.take()) == set()
    assert list(made) == [1]
    assert names_of(tracer.take()) == {"method"}


def test_the_compiled_form_is_kept_apart(tracer: Tracer, root: Path) -> None:
    """Instrumented code is cached apart, where Python itself does not load it."""
    module().outer()
    assert list((root / ".cache").rglob("module.*.pyc"))
    assert not list((root / "src").rglob("*.pyc"))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    tracer.take()
    module().used()
    assert names_of(tracer.take()) == {"used"}


def test_the_docstring_stays_one(tracer: Tracer) -> None:
    """The inserted code leaves the docstrings and names intact."""
    assert module().__doc__ == "A module."
    assert module().outer.__doc__ == "Call an inner function."
    assert module().kept.__name__ == "kept"


@pytest.mark.usefixtures("root")
def test_modules_of_tests_are_left_to_pytest(tracer: Tracer) -> None:
    """The tracer does not load modules of tests or of other packages."""
    assert tracer.find_spec("tests.unit.test_x") is None
    assert tracer.find_spec("tests.conftest") is None
    assert tracer.find_spec("json") is None


@pytest.mark.parametrize(
    ("event", "args", "read"),
    [
        ("open", ("docs/page.md", "r", os.O_RDONLY), {"docs/page.md"}),
        ("open", (b"docs/page.md", "r", os.O_RDONLY | os.O_CLOEXEC), {"docs/page.md"}),
        ("open", ("docs/page.md", "w", os.O_WRONLY | os.O_CREAT), set()),
        ("open", (7, "r", os.O_RDONLY), set()),
        ("open", ("/etc/hosts", "r", os.O_RDONLY), set()),
        ("os.listdir", ("docs",), {"docs"}),
        ("os.scandir", ("docs/adr",), {"docs/adr"}),
        ("compile", (None, "docs/page.md"), set()),
    ],
)
def test_files_below_the_root_that_are_read_are_traced(
    tracer: Tracer,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    event: str,
    args: tuple[object, ...],
    read: set[str],
) -> None:
    """Files and folders below the root are traced when Python's audit events report a read."""
    monkeypatch.chdir(root)
    tracer.take()
    tracer.audit(event, args)
    assert tracer.take().read == read


def test_the_files_of_modules_are_not_read(tracer: Tracer, root: Path) -> None:
    """The source of a module is not traced as a read file while the module is loaded."""
    with tracer.loading():
        tracer.audit("open", (str(root / "src/x.py"), "r", os.O_RDONLY))
    assert tracer.take().read == set()


@pytest.mark.parametrize("event", ["subprocess.Popen", "os.posix_spawn", "os.fork"])
def test_another_process_is_noted(tracer: Tracer, event: str) -> None:
    """Starting a process is noted, since it may run and read anything."""
    assert not tracer.take().starts_processes
    tracer.audit(event, ())
    assert tracer.take().starts_processes
