"""Every test has a docstring."""

import ast
from pathlib import Path

from tests.tidy.checkout import Checkout, statements


def silent_tests(tree: ast.Module, path: Path) -> list[str]:
    """Return the path, line and name of each test function without a docstring."""
    return [
        f"{path}:{node.lineno} {node.name}"
        for node in statements(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]


def test_every_test_states_the_behaviour(checkout: Checkout) -> None:
    """No test function lacks a docstring, which tells the reader of a failure what was tested."""
    modules = checkout.below("tests")
    silent = [line for path in modules for line in silent_tests(checkout.tree(path), path)]
    assert silent == []
