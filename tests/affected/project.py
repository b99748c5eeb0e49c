"""The Python files of a checkout, and the imports between them."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from tests.affected.sources import Source, digest, read_parts, read_whole

_FOLDERS: Final = {"src/berth": "src", "tests": ".", "bench": "."}
"""The folders of Python files, each with the folder to which module names are relative."""

TRACED: Final = "berth"
"""The package whose functions are traced; any change to another file affects its importers."""

_DOCUMENTED: Final = ("berth.api", "berth.cli")
"""Packages whose docstrings users see, in descriptions of operations and help of commands."""


class _Kept(msgspec.Struct, array_like=True):
    """The parts of a file, and the digest of the content from which they were read."""

    content: str
    source: Source


_KEPT = dict[str, _Kept]


class Project:
    """The Python files of a checkout.

    Each file is read once, when it is first needed; later changes to it are not seen.

    Args:
        root: folder of the checkout.
        cache: file that keeps the parts of each file for later processes; None keeps nothing.
    """

    def __init__(self, root: Path, cache: Path | None = None) -> None:
        self.root = root
        self.paths: Mapping[str, str] = dict(_python_files(root))
        self._cache = cache
        self._sources: dict[str, Source] = {}
        self._reached: dict[str, frozenset[str]] = {}
        self._kept, self._stale = _read_kept(cache), False

    def source(self, module: str) -> Source:
        """Return the parts of a module."""
        found = self._sources.get(module)
        if found is None:
            found = self._sources[module] = self._read(module)
        return found

    def module_of(self, path: str) -> str:
        """Return the name of the module that a path below the root holds."""
        return _module_of(path)

    def traced(self, module: str) -> bool:
        """Return whether the functions of a module are traced."""
        return module == TRACED or module.startswith(f"{TRACED}.")

    def imported_by(self, module: str) -> frozenset[str]:
        """Return the modules that one module imports or may load directly."""
        found = self._reached.get(module)
        if found is None:
            found = self._reached[module] = frozenset(self._reach(module)) - {module}
        return found

    def closure(self, module: str) -> frozenset[str]:
        """Return a module and all modules within reach of its imports."""
        found, pending = {module}, [module]
        while pending:
            new = self.imported_by(pending.pop()) - found
            found |= new
            pending.extend(new)
        return frozenset(found)

    @cached_property
    def plugins(self) -> frozenset[str]:
        """The modules that pyproject.toml names as entry points."""
        text = (self.root / "pyproject.toml").read_text("utf-8")
        groups = tomllib.loads(text)["project"].get("entry-points", {})
        names = {value.partition(":")[0] for group in groups.values() for value in group.values()}
        return frozenset(names & self.paths.keys())

    def save(self) -> None:
        """Write what was read to the cache file, if it has changed."""
        if self._cache is not None and self._stale:
            self._cache.parent.mkdir(parents=True, exist_ok=True)
            kept = {path: one for path, one in self._kept.items() if (self.root / path).exists()}
            replace_file(self._cache, msgspec.msgpack.encode(kept))
            self._stale = False

    def _read(self, module: str) -> Source:
        path = self.paths[module]
        text = (self.root / path).read_bytes()
        content = digest(text)
        kept = self._kept.get(path)
        if kept is None or kept.content != content:
            source = (
                read_parts(text, with_docstrings=module.startswith(_DOCUMENTED))
                if self.traced(module)
                else read_whole(text)
            )
            kept = self._kept[path] = _Kept(content, source)
            self._stale = True
        return kept.source

    def _reach(self, module: str) -> Iterator[str]:
        source = self.source(module)
        yield from self._parents(module)
        for name in source.imports:
            if name.endswith("."):
                yield from self._below(name)
            yield from self._parents(name.rstrip("."))
        if source.finds_plugins:
            yield from self.plugins
        if module.startswith("tests."):
            yield from self._conftests(module)

    def _parents(self, name: str) -> Iterator[str]:
        """Yield the modules of the project among a dotted name and its prefixes."""
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            prefix = ".".join(parts[:length])
            if prefix in self.paths:
                yield prefix

    def _below(self, prefix: str) -> Iterator[str]:
        """Yield the modules below a prefix, unless it names a top package."""
        if prefix.count(".") > 1:
            yield from (one for one in self.paths if one.startswith(prefix))

    def _conftests(self, module: str) -> Iterator[str]:
        parts = module.split(".")
        for length in range(1, len(parts)):
            conftest = ".".join([*parts[:length], "conftest"])
            if conftest in self.paths:
                yield conftest


def cache_of(root: Path) -> Path:
    """Return the folder of a checkout that keeps results from one run to the next."""
    return root / ".cache" / "affected"


def replace_file(path: Path, content: bytes) -> None:
    """Write a file that other processes see either in its old or in its new form."""
    written = path.with_suffix(".new")
    written.write_bytes(content)
    written.replace(path)


def _python_files(root: Path) -> Iterator[tuple[str, str]]:
    for folder, base in _FOLDERS.items():
        for path in sorted((root / folder).rglob("*.py")):
            yield _module_of(str(path.relative_to(root / base))), str(path.relative_to(root))


def _module_of(path: str) -> str:
    parts = path.removeprefix("src/").removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read_kept(cache: Path | None) -> _KEPT:
    if cache is None or not cache.exists():
        return {}
    try:
        return msgspec.msgpack.decode(cache.read_bytes(), type=_KEPT)
    except msgspec.DecodeError:
        return {}
