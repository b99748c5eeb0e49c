"""The parts of a Python file whose changes can affect other files.

A module has a frame, which runs when the module is imported, and functions, whose bodies run when
they are called. A change to the frame can affect every file that imports the module, a change to a
body only the files that call the function.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

Function = ast.FunctionDef | ast.AsyncFunctionDef

_ROOTS = r"(?:berth|bench|tests)"
_DOTTED = re.compile(rf"\b{_ROOTS}(?:[.:]\w+)*[.:]?")
_CACHES = frozenset({"cache", "lru_cache", "cached_property"})
_FILLING = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})


@dataclass(frozen=True, slots=True)
class Source:
    """The parts of one file, as digests that do not depend on its layout.

    For a file that counts as a whole, `frame` and `interface` are digests of its text.

    Attributes:
        frame: digest of everything except the bodies of functions and the comments; docstrings
            count only if the program shows them.
        bodies: digests of the bodies of functions and methods, in the order of `functions_of`.
        interface: digest of what a type checker reads of this file when it checks another.
        imports: dotted names that the file imports or mentions in strings. A name that ends with a
            dot stands for everything below it.
        finds_plugins: whether the file looks up entry points.
    """

    frame: str
    bodies: tuple[str, ...] = ()
    interface: str = ""
    imports: tuple[str, ...] = ()
    finds_plugins: bool = False


def digest(*parts: str | bytes) -> str:
    """Return a digest of several texts, which depends on their order and boundaries."""
    found = blake2b(digest_size=12)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()


def read_whole(text: bytes) -> Source:
    """Return a Python file as one frame, so every change to it affects all its importers."""
    whole = digest(text)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return Source(whole, interface=whole)
    imports, plugins = _references(tree, _docstrings(tree))
    return Source(whole, interface=whole, imports=imports, finds_plugins=plugins)


def read_parts(text: bytes, *, with_docstrings: bool) -> Source:
    """Return the frame and the functions of a Python file; one frame if it has a syntax error.

    Args:
        text: content of the file.
        with_docstrings: whether the program shows docstrings of this file, so they count.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return read_whole(text)
    docstrings = _docstrings(tree)
    imports, plugins = _references(tree, docstrings)
    if not with_docstrings:
        _blank(docstrings)
    functions = list(functions_of(tree))
    seen = [_dump(function.body) for function in functions if _sets_attributes(function)]
    bodies = [_cut(function) for function in functions]
    frame = _dump([tree])
    return Source(
        frame=digest(frame),
        bodies=tuple(digest(body) for body in bodies),
        interface=digest(frame, *seen),
        imports=imports,
        finds_plugins=plugins,
    )


def functions_of(tree: ast.Module) -> Iterator[Function]:
    """Yield the functions of a module and the methods of its classes, in the order of the file.

    A nested function belongs to the body of the outer function and is not yielded.
    """
    pending: list[ast.AST] = list(reversed(tree.body))
    while pending:
        node = pending.pop()
        if isinstance(node, Function):
            yield node
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def runs_once(function: Function, shared: frozenset[str]) -> bool:
    """Return whether a later call may use the cached result of an earlier one.

    Args:
        function: the function.
        shared: the names that `shared_names` finds in its module.
    """
    if any(_named(_callee(one)) in _CACHES for one in function.decorator_list):
        return True
    return any(_fills(node, shared) for node in ast.walk(function))


def shared_names(tree: ast.Module) -> frozenset[str]:
    """Return the names of a module that hold a dictionary, list or set that functions can fill."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _can_be_filled(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
    return frozenset(names)


def _can_be_filled(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return _named(value.func) in {"dict", "list", "set", "defaultdict", "WeakKeyDictionary"}
    return isinstance(value, ast.Dict | ast.List | ast.Set)


def _fills(node: ast.AST, shared: frozenset[str]) -> bool:
    """Return whether a node stores into a shared collection or declares a global name."""
    if isinstance(node, ast.Global):
        return True
    held: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        held = node.value
    if isinstance(node, ast.Attribute) and node.attr in _FILLING:
        held = node.value
    return isinstance(held, ast.Name) and held.id in shared


def _callee(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _named(node: ast.AST) -> str | None:
    """Return the last part of a name, attribute or import; None for any other node."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.alias):
        return node.name
    return None


def _references(
    tree: ast.Module, docstrings: Sequence[ast.Constant]
) -> tuple[tuple[str, ...], bool]:
    """Return what a file imports or mentions, and whether it looks up entry points."""
    found: set[str] = set()
    plugins = False
    skipped = {id(one) for one in docstrings} | _rewritten(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and id(node) not in skipped:
            for name in _DOTTED.findall(str(node.value)):
                found.update(_mentioned(name))
        plugins = plugins or _named(node) == "entry_points"
    return tuple(sorted(found)), plugins


def _rewritten(tree: ast.Module) -> set[int]:
    """Return the ids of the arguments of `register_assert_rewrite`, which imports nothing."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {
        id(argument)
        for call in calls
        if _named(call.func) == "register_assert_rewrite"
        for argument in call.args
    }


def _mentioned(name: str) -> Iterator[str]:
    """Yield the dotted names for which a string may stand; `package:folder` is a folder."""
    plain = name.replace(":", ".")
    yield plain
    if plain != name and not name.endswith(":"):
        yield f"{plain}."


def _cut(function: Function) -> str:
    """Remove the body of a function except its docstring, and return a dump of the body."""
    length = 1 if _docstring_of(function.body[0]) else 0
    body = _dump(function.body[length:])
    del function.body[length:]
    return body


def _docstrings(tree: ast.Module) -> list[ast.Constant]:
    """Return the strings that are statements: docstrings, including those of attributes."""
    return [text for node in ast.walk(tree) if (text := _docstring_of(node)) is not None]


def _docstring_of(node: ast.AST) -> ast.Constant | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value if isinstance(node.value.value, str) else None
    return None


def _blank(docstrings: Sequence[ast.Constant]) -> None:
    for text in docstrings:
        text.value = ""


def _sets_attributes(function: Function) -> bool:
    """Return whether a function assigns attributes, whose types other modules see."""
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        for node in ast.walk(function)
    )


def _dump(nodes: Sequence[ast.AST]) -> str:
    return "\n".join(ast.dump(node) for node in nodes)
