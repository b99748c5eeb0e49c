"""The parts of a Python file, and the parts that a change affects."""

import ast

import pytest

from tests.affected.sources import functions_of, read_parts, runs_once, shared_names

MODULE = '''"""A module."""

from berth.domain import host as noun

LIMIT = 3


@noun.registered
def first(given: int = LIMIT) -> int:
    """Return one more."""
    # A reason.
    return given + 1


class Kind:
    """A class."""

    size: int = 0

    def __init__(self, size: int) -> None:
        self.size = size

    def doubled(self) -> int:
        def twice(number: int) -> int:
            return 2 * number

        return twice(self.size)
'''


def changed(before: str, after: str, *, with_docstrings: bool = False) -> set[str]:
    """Return the parts of the module that differ after a piece of its text is replaced."""
    assert before in MODULE
    old = read_parts(MODULE.encode(), with_docstrings=with_docstrings)
    new = read_parts(MODULE.replace(before, after, 1).encode(), with_docstrings=with_docstrings)
    found = {name for name in ("frame", "interface") if getattr(old, name) != getattr(new, name)}
    return found | {
        f"body {number}"
        for number, (one, other) in enumerate(zip(old.bodies, new.bodies, strict=True))
        if one != other
    }


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ("given + 1", "given - 1", {"body 0"}),
        ("self.size = size", "self.size = -size", {"body 1", "interface"}),
        ("2 * number", "3 * number", {"body 2"}),
        ("LIMIT = 3", "LIMIT = 4", {"frame", "interface"}),
        ("= LIMIT)", "= 2)", {"frame", "interface"}),
        ("-> int:", "-> float:", {"frame", "interface"}),
        ("@noun.registered\n", "", {"frame", "interface"}),
        ("size: int = 0", "size: int = 1", {"frame", "interface"}),
        ("import host as", "import flavor as", {"frame", "interface"}),
        ("# A reason.", "# Another reason.\n", set()),
        ("Return one more", "Return the next", set()),
        ("given + 1", "(\n        given + 1\n    )", set()),
    ],
)
def test_a_change_is_one_of_the_frame_or_of_bodies(
    before: str, after: str, parts: set[str]
) -> None:
    """Code that runs at import is in the frame; layout, comments and docstrings are in no part."""
    assert changed(before, after) == parts


def test_docstrings_count_where_users_see_them() -> None:
    """Where docstrings become command help, a changed docstring changes the frame."""
    assert changed("Return one more", "Return the next", with_docstrings=True) == {
        "frame",
        "interface",
    }


def test_a_new_function_changes_the_frame() -> None:
    """A new function changes the frame, since it may replace another of the same name."""
    new = MODULE + "\n\ndef last() -> None:\n    pass\n"
    frames = {read_parts(text.encode(), with_docstrings=False).frame for text in (MODULE, new)}
    assert len(frames) == 2


def test_what_is_no_python_is_one_frame() -> None:
    """A file with a syntax error has only a frame, without bodies and imports."""
    source = read_parts(b"def f(:\n", with_docstrings=False)
    assert source.frame
    assert source.bodies == source.imports == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import berth.cli.main", {"berth.cli.main"}),
        (
            "def f():\n    from berth.domain import host, flavor",
            {"berth.domain.host", "berth.domain.flavor"},
        ),
        ("WHERE = 'berth.cli.hosts:hosts'", {"berth.cli.hosts.hosts", "berth.cli.hosts.hosts."}),
        ("RUN = ['python', '-m', 'berth.cli.main', 'up']", {"berth.cli.main"}),
        ("f(f'berth.scheduling.filters.{name}')", {"berth.scheduling.filters."}),
        ('"""See berth.domain.host."""', set()),
        ("pytest.register_assert_rewrite('berth.testing.bus_conformance')", set()),
    ],
)
def test_a_file_refers_to_what_it_imports_or_mentions(text: str, names: set[str]) -> None:
    """Imports and module names in strings are references; docstrings are not."""
    assert set(read_parts(text.encode(), with_docstrings=False).imports) == names


def test_a_file_finds_plugins_when_it_looks_entry_points_up() -> None:
    """A file that uses `entry_points` finds plugins, however it imports the function."""
    text = "from importlib import metadata\nFOUND = metadata.entry_points(group='g')"
    assert read_parts(text.encode(), with_docstrings=False).finds_plugins


def test_functions_stand_in_the_order_of_the_file() -> None:
    """Methods and conditional functions are listed in order; nested functions are not."""
    text = "if X:\n    def a(): pass\nelse:\n    def b(): pass\n" + MODULE
    names = [function.name for function in functions_of(ast.parse(text))]
    assert names == ["a", "b", "first", "__init__", "doubled"]


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("@cache\ndef f(): pass", True),
        ("@functools.lru_cache(maxsize=3)\ndef f(): pass", True),
        ("KNOWN: dict[str, int] = {}\ndef f(): KNOWN['a'] = 1", True),
        ("KNOWN = dict()\ndef f(): return KNOWN.setdefault('a', 1)", True),
        ("found = None\ndef f():\n    global found\n    found = 1", True),
        ("KNOWN = {'a': 1}\ndef f(): return KNOWN['a']", False),
        ("def f():\n    known = {}\n    known['a'] = 1", False),
    ],
)
def test_a_function_that_keeps_results_runs_once(text: str, once: bool) -> None:
    """A function with a cache or a global result runs once per process."""
    tree = ast.parse(text)
    (function,) = functions_of(tree)
    assert runs_once(function, shared_names(tree)) is once
