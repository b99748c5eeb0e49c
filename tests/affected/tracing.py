"""A trace of the functions that ran and the files of the checkout that were read.

Every traced function gets a first statement that sets its mark. This costs about twenty nanoseconds
per call and works in all threads; a profiler or a coverage tool would slow every call down more.
"""

import ast
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, ParamSpec, TypeVar

from tests.affected import sources
from tests.affected.sources import Function, digest, functions_of, runs_once, shared_names

_P = ParamSpec("_P")
_R = TypeVar("_R")

# These are not valid identifiers, so they cannot hide a name of the traced module.
_MARKS: Final = "@marks"
_ONCE: Final = "@once"
_NEW_MARKS: Final = "@new_marks"

_UNTRACED: Final = ("tests", "bench")
"""Packages whose modules count as a whole, together with what runs while they are imported."""

ALL: Final = -1
"""The bits of a module that is not traced: all are set."""

_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")

_STARTS: Final = frozenset({"subprocess.Popen", "os.posix_spawn", "os.spawn", "os.exec", "os.fork"})
_LISTS: Final = frozenset({"os.listdir", "os.scandir"})


@dataclass(slots=True)
class Trace:
    """What ran and what was read.

    Attributes:
        ran: the functions that ran, as bits by their index in the module, by module.
        read: paths of files and folders below the root that were opened or listed.
        starts_processes: whether another process was started, which is not traced.
    """

    ran: dict[str, int] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    starts_processes: bool = False

    def add(self, other: "Trace") -> None:
        """Add what another trace contains."""
        for module, bits in other.ran.items():
            self.ran[module] = self.ran.get(module, 0) | bits
        self.read |= other.read
        self.starts_processes = self.starts_processes or other.starts_processes


class Tracer:
    """Traces the modules of one package from their import on.

    Args:
        package: name of the package.
        root: folder of the checkout; only files below it count as read.
        bytecode: folder for the compiled form of traced modules.
    """

    def __init__(self, package: str, root: Path, bytecode: Path) -> None:
        self.once = Trace()
        """What runs once in a process: while a module is imported, or when a cache is filled. It
        is charged to all tests, because chance decides which test runs it first."""
        self._package = package
        self._root = f"{root}{os.sep}"
        self._bytecode = bytecode / digest(*_own_sources(), sys.version)
        self._marks: dict[str, bytearray] = {}
        self._now = Trace()
        self._loading = False

    def install(self) -> None:
        """Trace imports, reads and started processes from now on, until the process ends."""
        sys.meta_path.insert(0, self)
        sys.addaudithook(self.audit)

    def take(self) -> Trace:
        """Return what was traced since the last call."""
        taken, self._now = self._now, Trace()
        for module, marks in self._marks.items():
            if 1 in marks:
                bits = int(marks.translate(_DIGITS)[::-1], 2)
                marks[:] = bytes(len(marks))
                taken.ran[module] = taken.ran.get(module, 0) | bits
        return taken

    @contextmanager
    def apart(self, trace: Trace) -> Iterator[None]:
        """Add what runs in the body to `trace` instead of the current trace."""
        before = self.take()
        try:
            yield
        finally:
            trace.add(self.take())
            before.add(self._now)
            self._now = before

    def only_once(self) -> AbstractContextManager[None]:
        """Charge what runs in the body as what runs once in a process."""
        return self.apart(self.once)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to import a module of the project; None leaves test files to pytest."""
        top, leaf = name.partition(".")[0], name.rpartition(".")[2]
        if top not in {self._package, *_UNTRACED} or leaf.startswith("test_") or leaf == "conftest":
            return None
        with self.loading():
            spec = next(self._found(name, path, target), None)
        if spec is None or spec.loader is None:
            return spec
        if top == self._package and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(self, spec.loader)
        else:
            spec.loader = _OnceLoader(self, spec.loader)  # type: ignore[assignment] # it delegates
        return spec

    def _found(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> Iterator[ModuleSpec]:
        """Yield the specs that the finders of Python and pytest return."""
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                yield spec

    def new_marks(self, module: str, count: int) -> bytearray:
        """Return new, unset marks for the functions of a module."""
        marks = self._marks[module] = bytearray(count)
        return marks

    def bytecode_path(self, path: str) -> str:
        """Return the path of the compiled form of a module, outside its `__pycache__`."""
        return f"{self._bytecode}{os.sep}{path.removeprefix(self._root).lstrip(os.sep)}"

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Do not count the files and folders that the body reads in order to load a module."""
        before, self._loading = self._loading, True
        try:
            yield
        finally:
            self._loading = before

    def audit(self, event: str, args: tuple[object, ...]) -> None:
        """Record the audit events for opened files, listed folders and started processes."""
        if event == "open":
            if not self._loading:
                self._opened(args)
        elif event in _LISTS:
            if not self._loading:
                self._note(args[0] if args else ".")
        elif event in _STARTS:
            self._now.starts_processes = True

    def _opened(self, args: tuple[object, ...]) -> None:
        path, _, flags = args
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
            return
        self._note(path)

    def _note(self, path: object) -> None:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str):
            if not path.startswith("/"):
                path = os.path.abspath(path)  # noqa: PTH100 - a Path is ten times slower
            if path.startswith(self._root):
                self._now.read.add(path.removeprefix(self._root))


class _OnceLoader:
    """Loads a module with another loader and counts all its functions as run."""

    def __init__(self, tracer: Tracer, plain: Loader) -> None:
        self._tracer = tracer
        self._plain = plain

    def __getattr__(self, name: str) -> object:
        """Return the attribute of the other loader."""
        return getattr(self._plain, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module with the other loader."""
        return self._plain.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module; what runs meanwhile does so once in a process."""
        with self._tracer.only_once():
            self._tracer.once.ran[module.__name__] = ALL
            self._plain.exec_module(module)


class _Loader(SourceFileLoader):
    """Loads a module whose functions set marks."""

    def __init__(self, tracer: Tracer, plain: SourceFileLoader) -> None:
        super().__init__(plain.name, plain.path)
        self._tracer = tracer

    def source_to_code(  # type: ignore[override] # typeshed omits _optimization
        self, data: bytes, path: str, *, _optimization: int = -1
    ) -> CodeType:
        """Compile the source with a statement in each function that sets its mark."""
        tree = ast.parse(data)
        add_marks(tree, self.name)
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimization)

    def get_data(self, path: str) -> bytes:
        """Read the source or, from the folder for bytecode, the compiled form."""
        with self._tracer.loading():
            return super().get_data(
                self._tracer.bytecode_path(path) if path.endswith(".pyc") else path
            )

    def set_data(  # type: ignore[override] # Python passes only bytes
        self, path: str, data: bytes, *, _mode: int = 0o666
    ) -> None:
        """Write the compiled form to the folder for bytecode."""
        super().set_data(self._tracer.bytecode_path(path), data, _mode=_mode)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module; what runs meanwhile does so once in a process."""
        tracer = self._tracer
        module.__dict__[_NEW_MARKS] = tracer.new_marks
        module.__dict__[_ONCE] = functools.partial(_once, tracer)
        with tracer.only_once():
            super().exec_module(module)


def add_marks(tree: ast.Module, module: str) -> None:
    """Add a statement to each function that sets its mark, and wrap those that fill caches."""
    shared = shared_names(tree)
    functions = list(functions_of(tree))
    for number, function in enumerate(functions):
        cached = runs_once(function, shared)
        for inner in ast.walk(function):
            if isinstance(inner, Function):
                _insert(inner.body, _statement(f"__marks__[{number}] = 1", inner))
        if cached:
            function.decorator_list.append(ast.Name(_ONCE, ast.Load()))
    at_first = tree.body[0] if tree.body else tree
    begin = _statement(f"__marks__ = __new_marks__({module!r}, {len(functions)})", at_first)
    _insert(tree.body, begin)
    ast.fix_missing_locations(tree)


def _once(tracer: Tracer, function: Callable[_P, _R]) -> Callable[_P, _R]:
    @functools.wraps(function)
    def called(*args: _P.args, **named: _P.kwargs) -> _R:
        with tracer.only_once():
            return function(*args, **named)

    return called


_NAMES: Final[Mapping[str, str]] = {"__marks__": _MARKS, "__new_marks__": _NEW_MARKS}


def _statement(text: str, where: ast.AST) -> ast.stmt:
    """Return a statement with the line number of another node."""
    made = ast.parse(text).body[0]
    line = getattr(where, "lineno", 1)
    for node in ast.walk(made):
        if isinstance(node, ast.Name):
            node.id = _NAMES.get(node.id, node.id)
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    return made


def _insert(body: list[ast.stmt], statement: ast.stmt) -> None:
    """Insert a statement after the docstring and the `__future__` imports."""
    place = 0
    for node in body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not docstring and not future:
            break
        place += 1
    body.insert(place, statement)


def _own_sources() -> Iterator[bytes]:
    for module in (sys.modules[__name__], sources):
        yield Path(str(module.__file__)).read_bytes()
