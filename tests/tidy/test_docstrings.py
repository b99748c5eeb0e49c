"""Every test says which behaviour it asks for."""

import ast
from pathlib import Path

from tests.tidy.checkout import Checkout, statements


def silent_tests(tree: ast.Module, path: Path) -> list[str]:
    """Name the test functions without a docstring."""
    return [
        f"{path}:{node.lineno} {node.name}"
        for node in statements(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]


def test_every_test_states_the_behaviour(checkout: Checkout) -> None:
    """Who reads a failed test learns from its docstring what was promised."""
    modules = checkout.below("tests")
    silent = [line for path in modules for line in silent_tests(checkout.tree(path), path)]
    assert silent == []
