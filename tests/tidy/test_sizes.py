"""Modules and functions stay within fixed lengths."""

import ast
from pathlib import Path

from tests.tidy.checkout import Checkout, statements

MODULE_LINES_MAX = 700
FUNCTION_LINES_MAX = 50


def function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of a function without decorators and docstring."""
    first, *_ = function.body
    docstring = 0
    if ast.get_docstring(function, clean=False) is not None:
        docstring = (first.end_lineno or 0) - first.lineno + 1
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def long_functions(tree: ast.Module, path: Path) -> list[str]:
    """Return the path, name and length of each function above the limit."""
    return [
        f"{path}:{node.lineno} {node.name}: {function_lines(node)} lines"
        for node in statements(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and function_lines(node) > FUNCTION_LINES_MAX
    ]


def test_a_function_is_counted_without_its_docstring() -> None:
    """Decorators and docstring do not count towards the length of a function."""
    source = '@wrap\ndef f():\n    """One.\n\n    Two.\n    """\n    return 1\n'
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert function_lines(function) == 2


def test_modules_have_at_most_700_lines(checkout: Checkout) -> None:
    """No module is longer, as a longer one usually holds a second subject."""
    lengths = {path: checkout.text(path).count("\n") for path in checkout.below("src")}
    too_long = {str(path): lines for path, lines in lengths.items() if lines > MODULE_LINES_MAX}
    assert too_long == {}


def test_functions_have_at_most_50_lines(checkout: Checkout) -> None:
    """No function is longer, as a longer one usually does a second thing."""
    modules = checkout.below("src")
    too_long = [line for path in modules for line in long_functions(checkout.tree(path), path)]
    assert too_long == []
