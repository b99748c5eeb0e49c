"""The engine's law: what it keeps gives the plan that a full evaluation gives, to the last bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.config.plugins import FILTERS, WEIGHERS, plugin_names
from tests.property.engine_world import World

_FILTERS = st.lists(
    st.sampled_from([name for name in plugin_names(FILTERS) if name != "ResourcesFilter"]),
    unique=True,
)
_WEIGHERS = st.lists(st.sampled_from(plugin_names(WEIGHERS)), unique=True, max_size=7)


@pytest.mark.usefixtures("engine")
@given(
    seed=st.integers(0, 2**63 - 1),
    filters=_FILTERS,
    weighers=_WEIGHERS,
    steps=st.integers(1, 60),
)
def test_the_engine_and_a_full_evaluation_make_the_same_plans(
    seed: int, filters: list[str], weighers: list[str], steps: int
) -> None:
    """Whatever happens between requests, with every rule and mode; `World.decide` compares."""
    world = World(seed, filters, weighers)
    for _ in range(steps):
        world.step()
