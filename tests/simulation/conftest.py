"""The choice of seeds: a number for each scenario, or one that is replayed.

`python -m pytest tests/simulation --seed 17` replays seed 17 of every scenario, and
`BERTH_SEEDS=1000` runs a thousand of each.
"""

import os

import pytest

SEEDS = 32
"""The number of seeds of each scenario, unless its module or `BERTH_SEEDS` sets another."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--seed`."""
    parser.addoption("--seed", type=int, default=None, help="replay one seed of the simulation")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize each test that takes a seed."""
    if "seed" not in metafunc.fixturenames:
        return
    # The default avoids an error if pytest has found this file too late to add the option.
    seed = metafunc.config.getoption("--seed", default=None)
    usual: int = getattr(metafunc.module, "SEEDS", SEEDS)
    count = int(os.environ.get("BERTH_SEEDS", usual))
    metafunc.parametrize("seed", range(count) if seed is None else [seed])
