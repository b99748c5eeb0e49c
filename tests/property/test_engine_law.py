"""The engine's law: its cached values give exactly the plan of a full evaluation."""

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
    """After random changes, both plans are equal for any filters and weighers (`World.decide`)."""
    world = World(seed, filters, weighers)
    for _ in range(steps):
        world.step()
