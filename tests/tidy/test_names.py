"""Modules are named after their subject."""

import pytest

from tests.tidy.checkout import Checkout

NAMELESS = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}


@pytest.mark.parametrize("folder", ["src", "tests", "bench"])
def test_no_module_hides_that_a_noun_is_missing(checkout: Checkout, folder: str) -> None:
    """A module or package called utils, helpers, common, misc, base or manager is reported."""
    nameless = [
        str(path)
        for path in checkout.below(folder)
        if NAMELESS & {part.strip("_") for part in path.with_suffix("").parts}
    ]
    assert nameless == []
