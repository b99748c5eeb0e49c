"""How seeds are chosen: so many of each scenario, or the one that is to be replayed.

`python -m pytest tests/simulation --seed 17` replays seed 17 of every scenario, and
`BERTH_SEEDS=1000` runs a thousand of each.
"""

import os

import pytest

SEEDS = 70
"""Seeds of each scenario, unless its module or somebody else says otherwise."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--seed`."""
    parser.addoption("--seed", type=int, default=None, help="replay one seed of the simulation")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes a seed with each of them."""
    if "seed" not in metafunc.fixturenames:
        return
    # Without a default this fails when pytest has found this file too late to add the option.
    seed = metafunc.config.getoption("--seed", default=None)
    usual: int = getattr(metafunc.module, "SEEDS", SEEDS)
    count = int(os.environ.get("BERTH_SEEDS", usual))
    metafunc.parametrize("seed", range(count) if seed is None else [seed])
