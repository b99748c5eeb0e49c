"""Services write providers under a guard, so they never overwrite a change they have not seen."""

import ast

import pytest

from tests.tidy.checkout import Checkout

SERVICES = "src/berth/services"
GUARD = "provider_guard"
OF_OTHER_NOUNS = {
    "hosts.set_service": "puts a service",
    "import_units.removal_units": "puts a server that is deleted",
    "registration._is_stored": "compares a write with what is stored",
    "resource_names.ensure_trait": "puts a trait",
}
GUARDED_ELSEWHERE = {
    "import_units._put": "import_units.tree_units, the only caller with providers, guards them",
    "provider_trees.retire": "registration.tree_writes, its only caller, guards all that is gone",
}


def names_in(node: ast.AST) -> set[str]:
    """Return the names that a piece of code uses."""
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def outermost_functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions of a module and the methods of its classes, without nested functions."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    return [
        node
        for body in bodies
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def unguarded(tree: ast.Module) -> list[str]:
    """Return the names of the functions that use `Put` but not the guard of a provider.

    Only a module that uses `Provider` can put one, so other modules give an empty list.
    """
    if "Provider" not in names_in(tree):
        return []
    return [
        function.name
        for function in outermost_functions(tree)
        if "Put" in (used := names_in(function)) and GUARD not in used
    ]


def test_no_service_puts_a_provider_without_its_guard(checkout: Checkout) -> None:
    """A `Put` without a guard would overwrite what the other API has written meanwhile."""
    found = {
        f"{path.stem}.{name}"
        for path in checkout.below(SERVICES)
        for name in unguarded(checkout.tree(path))
    }
    assert found <= OF_OTHER_NOUNS.keys() | GUARDED_ELSEWHERE.keys()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f(one: Provider): return (Put(one),)", ["f"]),
        ("class A:\n  async def f(self, some: list[Provider]): return [*map(Put, some)]", ["f"]),
        ("def f(one: Provider):\n  def g(): return Put(one)\n  return g", ["f"]),
        ("def f(one: Provider): return (Guard(provider_guard(one.uuid), 1), Put(one))", []),
        ("def f(one: Service): return (Put(one),)", []),
        ("def f(one: Provider): return (Revise(one, 1),)", []),
    ],
)
def test_what_is_found(code: str, found: list[str]) -> None:
    """`Put` is found in functions, methods and nested functions, but not with its guard."""
    assert unguarded(ast.parse(code)) == found
