"""A record of what each test file needed when its tests last passed."""

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from tests.affected.project import Project, replace_file
from tests.affected.sources import digest
from tests.affected.tracing import Trace

_KERNEL: Final = "berth_kernel"
_SETTINGS: Final = ("BERTH_", "HYPOTHESIS_", "PYTHON")
"""Prefixes of the environment variables that tests or the interpreter read."""


class Needs(msgspec.Struct, array_like=True):
    """What a run of a test file depended on.

    Attributes:
        ran: the functions that ran, as bits in hexadecimal, by traced module.
        read: the files and folders of the checkout that it read.
        starts_processes: whether it started a process, which may have read any file.
    """

    ran: dict[str, str] = {}
    read: list[str] = []
    starts_processes: bool = False

    def and_of(self, other: "Needs") -> "Needs":
        """Return the needs of two runs taken together."""
        return Needs(
            join_bits(self.ran, other.ran),
            sorted({*self.read, *other.read}),
            self.starts_processes or other.starts_processes,
        )


class Passed(msgspec.Struct, array_like=True):
    """A run of a test file in which all its tests passed.

    Attributes:
        fingerprint: digest of everything that the run needed, at the time of the run.
        needs: what the run needed.
        seconds: processor time of its tests.
    """

    fingerprint: str
    needs: Needs
    seconds: float


class Once(msgspec.Struct, array_like=True):
    """The functions of a module that run once in a process, valid for one frame of the module."""

    frame: str
    ran: str


class Traces(msgspec.Struct, array_like=True):
    """What one process traced.

    Attributes:
        needs: what each test file needed.
        seconds: processor time of the tests, by test file.
        once: the functions that ran once in the process, as bits in hexadecimal, by module.
        partial: test files of which some tests were deselected.
    """

    needs: dict[str, Needs]
    seconds: dict[str, float]
    once: dict[str, str]
    partial: list[str]


class Passes(msgspec.Struct):
    """The last pass of each test file.

    Attributes:
        files: the last passes, by the path of the test file.
        once: what is charged to every test file that can reach a module, by module.
    """

    files: dict[str, Passed] = {}
    once: dict[str, Once] = {}

    @classmethod
    def read(cls, path: Path) -> "Passes":
        """Return the passes in a file; none if the file is missing or has another format."""
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=cls)
        except (FileNotFoundError, msgspec.DecodeError):
            return cls()

    def write(self, path: Path) -> None:
        """Write the passes to a file, which other processes see complete or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.msgpack.encode(self))

    def add_once(self, ran: Mapping[str, str], project: Project) -> None:
        """Add what ran once in a process; a changed frame discards what is known of its module."""
        for module, bits in ran.items():
            if module not in project.paths:
                continue
            frame = project.source(module).frame
            known = self.once.get(module)
            before = known.ran if known is not None and known.frame == frame else "0"
            self.once[module] = Once(frame, join_bits({module: before}, {module: bits})[module])


class Fingerprints:
    """Digests of everything that test files depend on, at present.

    Args:
        project: the Python files of the checkout.
        once: what is charged to every test file that can reach a module, by module.
        environment: digest of what all test files depend on; `digest_environment` returns it.
    """

    def __init__(self, project: Project, once: Mapping[str, Once], environment: str) -> None:
        self._project = project
        self._once = {
            module: int(one.ran, 16)
            for module, one in once.items()
            if module in project.paths and project.source(module).frame == one.frame
        }
        self._environment = environment
        self._modules: dict[tuple[str, int], str] = {}
        self._paths: dict[str, str] = {}

    def of(self, test: str, needs: Needs) -> str:
        """Return the fingerprint of a test file.

        Args:
            test: path of the file below the root.
            needs: what the file needed when it last ran.
        """
        parts = [self._environment]
        for module in sorted(self._project.closure(self._project.module_of(test))):
            ran = int(needs.ran.get(module, "0"), 16) | self._once.get(module, 0)
            parts.append(self._of_module(module, ran))
        parts += (self._of_path(path) for path in sorted(needs.read))
        if needs.starts_processes:
            parts.append(self._checkout)
        return digest("\n".join(parts))

    def _of_module(self, module: str, ran: int) -> str:
        found = self._modules.get((module, ran))
        if found is None:
            source = self._project.source(module)
            bodies = (body for number, body in enumerate(source.bodies) if ran >> number & 1)
            found = f"{module} {digest(source.frame, *bodies)}"
            self._modules[module, ran] = found
        return found

    def _of_path(self, path: str) -> str:
        found = self._paths.get(path)
        if found is None:
            found = self._paths[path] = f"{path} {digest_path(self._project.root / path)}"
        return found

    @cached_property
    def _checkout(self) -> str:
        """A digest of every file of the checkout except hidden ones and compiled modules."""
        return digest(*_digests(self._project.root))


def digest_path(path: Path) -> str:
    """Return a digest of the content of a file or the names in a folder; "" if unreadable."""
    try:
        if path.is_dir():
            return digest(*sorted(one.name for one in path.iterdir() if _counts(one.name)))
        return digest(path.read_bytes())
    except OSError:
        return ""


def digest_environment(root: Path) -> str:
    """Return a digest of what all tests depend on besides the code under test.

    This is the interpreter, the installed packages, pyproject.toml, these tools, the compiled
    kernel and the environment variables that tests read.
    """
    kernel = find_spec(_KERNEL)
    files = [
        root / "pyproject.toml",
        *sorted((root / "tests" / "affected").glob("*.py")),
        *([Path(kernel.origin)] if kernel is not None and kernel.origin is not None else []),
    ]
    found = list(distributions())
    installed = sorted(f"{one.name}=={one.version}" for one in found)
    plugins = sorted(
        f"{one.group} {one.name}={one.value}" for each in found for one in each.entry_points
    )
    settings = sorted(
        f"{name}={value}" for name, value in os.environ.items() if name.startswith(_SETTINGS)
    )
    return digest(
        sys.version,
        platform.platform(),
        *installed,
        *plugins,
        *settings,
        *(digest_path(path) for path in files),
    )


def join_bits(some: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return the bits, in hexadecimal, that are set in at least one of two mappings, by module."""
    return {
        module: f"{int(some.get(module, '0'), 16) | int(others.get(module, '0'), 16):x}"
        for module in some.keys() | others.keys()
    }


def merge(traces: Iterable[Traces]) -> Traces:
    """Return the traces of several processes as one."""
    merged = Traces({}, {}, {}, [])
    for one in traces:
        for path, needs in one.needs.items():
            merged.needs[path] = needs.and_of(merged.needs.get(path, Needs()))
        for path, seconds in one.seconds.items():
            merged.seconds[path] = merged.seconds.get(path, 0.0) + seconds
        merged.once = join_bits(merged.once, one.once)
        merged.partial += one.partial
    return merged


def needs_of(trace: Trace) -> Needs:
    """Return what a test file needed, without hidden files; compiled modules count as sources."""
    return Needs(
        ran={module: f"{bits:x}" for module, bits in trace.ran.items()},
        read=sorted({path for read in trace.read if (path := _source_of(read)) is not None}),
        starts_processes=trace.starts_processes,
    )


def _source_of(path: str) -> str | None:
    """Return the path that counts as read: the source of a compiled module, None if hidden."""
    parts = path.split("/")
    if path.endswith(".pyc") and "__pycache__" in parts:
        folder, _, name = path.rpartition("/__pycache__/")
        return f"{folder}/{name.partition('.')[0]}.py"
    return path if all(_counts(part) for part in parts) else None


def _counts(name: str) -> bool:
    return not name.startswith(".") and name != "__pycache__"


def _digests(folder: Path) -> Iterable[str]:
    for path in sorted(folder.iterdir()):
        if not _counts(path.name):
            continue
        yield path.name
        if path.is_dir():
            yield from _digests(path)
        else:
            yield digest_path(path)
