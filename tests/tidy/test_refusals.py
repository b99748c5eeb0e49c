"""Refusals have a summary for readers who may not learn the reasons."""

import ast

from tests.tidy.checkout import Checkout


def test_every_refusal_has_a_summary(checkout: Checkout) -> None:
    """A refusal without one would tell tenants only that no valid host was found."""
    made = {
        f"{path}:{node.lineno}": {one.arg for one in node.keywords}
        for path in checkout.below("src")
        for node in ast.walk(checkout.tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Refusal"
    }
    refusals = {where: names for where, names in made.items() if "hosts_total" in names}
    assert len(refusals) > 3
    assert [where for where, names in refusals.items() if "summary" not in names] == []
