"""Hypothesis strategies for the values that records of many kinds share."""

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import Fault
from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.domain.hardware.cpu_sets import CPU_MAX
from berth.domain.inventory.resources import AMOUNT_MAX, RATIO_MAX, Inventory

SIZE_MAX: Final = 3
"""The maximum size of a drawn collection; few entries suffice to break a property."""

texts: Final = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
"""Draws any text that every database accepts; PostgreSQL refuses NUL characters."""

uuids: Final = st.uuids(version=4).map(str)
seconds: Final = st.floats(min_value=0.0, max_value=4e9, allow_nan=False)
scores: Final = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)
amounts: Final = st.integers(0, AMOUNT_MAX)
positive_amounts: Final = st.integers(1, AMOUNT_MAX)
counts: Final = st.integers(0, 100_000)
names: Final = st.from_regex(r"[A-Z][A-Z0-9_]{0,11}", fullmatch=True)
"""Draws the name of a resource class or trait."""

text_maps: Final = st.dictionaries(texts, texts, max_size=SIZE_MAX)
_json: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-AMOUNT_MAX, AMOUNT_MAX) | scores | texts,
    lambda inner: st.lists(inner, max_size=SIZE_MAX) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
json_maps: Final = st.dictionaries(texts, _json, max_size=SIZE_MAX)
text_tuples: Final = st.lists(texts, max_size=SIZE_MAX).map(tuple)
hint_maps: Final = st.dictionaries(texts, text_tuples, max_size=SIZE_MAX)
pairs: Final = st.lists(st.tuples(texts, texts), max_size=SIZE_MAX).map(tuple)


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Draw any valid inventory."""
    total = draw(amounts)
    return Inventory(
        total=total,
        reserved=draw(st.integers(0, total)),
        min_unit=draw(positive_amounts),
        max_unit=draw(amounts),
        step_size=draw(positive_amounts),
        allocation_ratio=draw(st.floats(0.0, RATIO_MAX, exclude_min=True, allow_subnormal=False)),
    )


def amounts_by_class(
    values: st.SearchStrategy[int] = positive_amounts,
) -> st.SearchStrategy[Mapping[str, int]]:
    """Draw amounts of up to `SIZE_MAX` resource classes, by class."""
    return st.dictionaries(names, values, max_size=SIZE_MAX)


def flavors() -> st.SearchStrategy[Flavor]:
    """Draw a flavor."""
    return st.builds(
        Flavor,
        flavor_id=uuids,
        name=texts,
        vcpus=amounts,
        memory_mb=amounts,
        root_gb=amounts,
        ephemeral_gb=amounts,
        swap_mb=amounts,
        extra_specs=text_maps,
        is_public=st.booleans(),
        disabled=st.booleans(),
        rxtx_factor=scores,
        description=st.none() | texts,
    )


def images() -> st.SearchStrategy[Image]:
    """Draw an image."""
    return st.builds(
        Image,
        image_id=uuids,
        name=texts,
        properties=text_maps,
        min_memory_mb=amounts,
        min_disk_gb=amounts,
    )


def assignments() -> st.SearchStrategy[Assignment]:
    """Draw the resources that an instance has been assigned on its host."""
    cpus = st.integers(0, CPU_MAX)
    shares = st.builds(
        CellShare,
        host_cell=counts,
        memory_mb=amounts,
        page_size_kb=st.none() | positive_amounts,
        shared_cpus=counts,
        pinned=st.lists(st.tuples(cpus, cpus), max_size=SIZE_MAX).map(tuple),
        emulator_cpus=st.frozensets(cpus, max_size=1),
        idle_cpus=st.frozensets(cpus, max_size=SIZE_MAX),
    )
    devices = st.builds(DeviceShare, pool=texts, count=counts, alias=texts)
    return st.builds(
        Assignment,
        allocations=st.dictionaries(uuids, amounts_by_class(), max_size=SIZE_MAX),
        mappings=st.dictionaries(texts, st.lists(uuids, max_size=2).map(tuple), max_size=2),
        root=st.none() | amounts_by_class(),
        numa=st.lists(shares, max_size=2).map(tuple),
        devices=st.lists(devices, max_size=2).map(tuple),
    )


def faults() -> st.SearchStrategy[Fault]:
    """Draw a fault."""
    return st.builds(Fault, code=counts, message=texts, created_at_s=seconds, details=texts)
