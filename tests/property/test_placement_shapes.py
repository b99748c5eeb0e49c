"""Laws of `Shape.is_plain`: the handwritten checks never accept what the schema refuses."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from berth.api.placement.schemas.allocations import (
    POST_ALLOCATIONS,
    POST_RESHAPER,
    PUT_ALLOCATIONS,
)
from berth.api.placement.schemas.providers import PUT_INVENTORIES
from berth.api.placement.schemas.queries import LIST_CANDIDATES
from berth.api.placement.shapes import Shape

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 2, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 1.0, 1.5, 1e39, "", "\n"]),
    st.text(max_size=4),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
)
UUIDS = st.uuids().map(str)


def mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a usual value, or an odd one in about one of 16 draws."""
    return st.integers(0, 15).flatmap(lambda lot: odd if lot == 0 else usual)


UUID_LIKE = mostly(
    UUIDS, UUIDS.map(str.upper) | UUIDS.map(lambda uuid: f"{uuid}\n") | st.text(max_size=3)
)
NAMES = mostly(
    st.sampled_from(["VCPU", "DISK_GB", "CUSTOM_1"]),
    st.sampled_from(["vcpu", "", "VCPU\n", "A" * 300]),
)
NUMBERS = mostly(
    st.sampled_from([1, 2, 2**31 - 1]),
    st.sampled_from([0, -1, 2**31, 2**63, 1.0, 0.5, True, None, "1"]),
)


FAULTS = st.sampled_from(["right"] * 9 + ["less", "other", "more"])


@st.composite
def near(draw: st.DrawFn, fields: Mapping[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    """Draw an object with all fields, or with one missing, replaced or added."""
    value = {name: draw(field) for name, field in fields.items()}
    match draw(FAULTS):
        case "less":
            del value[draw(st.sampled_from(sorted(value)))]
        case "other":
            value[draw(st.sampled_from(sorted(value)))] = draw(VALUES)
        case "more":
            value[draw(st.text(max_size=3))] = draw(VALUES)
        case _:
            pass
    return value


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw objects with all fields, or with one missing, replaced or added."""
    return near(fields)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw objects of some of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


RESOURCES = st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=2)
HELD = st.one_of(
    objects(resources=RESOURCES),
    objects(resources=RESOURCES, generation=NUMBERS),
    objects(resources=st.just({"VCPU": 1})),
)
ALLOCATIONS = st.dictionaries(UUID_LIKE, HELD, max_size=2) | st.dictionaries(
    UUIDS, st.just({"resources": {"VCPU": 1}}), max_size=2
)
TEXTS = mostly(
    st.sampled_from(["p", "x" * 255, "☃"]),
    st.sampled_from(["", "x" * 256, "\0", "a\n", 1, None]),
)
SUFFIXES = mostly(
    st.sampled_from(["", "1", "_A", "-", "x" * 64]), st.sampled_from(["x" * 65, "é", "\n"])
)
MAPPINGS = st.dictionaries(SUFFIXES, st.lists(UUID_LIKE, min_size=1, max_size=2), max_size=2)
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "allocations": ALLOCATIONS,
    "project_id": TEXTS,
    "user_id": st.just("u"),
}
SEEN: dict[str, st.SearchStrategy[Any]] = {"consumer_generation": st.just(1) | NUMBERS}


@cache
def claims(since: int) -> st.SearchStrategy[object]:
    """Draw bodies that are valid, or nearly valid, for a version."""
    fields = GOOD | (SEEN if since >= 28 else {})
    fields |= {"consumer_type": NAMES} if since >= 38 else {}
    mapped = {**fields, "mappings": MAPPINGS}
    return (
        objects(**fields)
        | objects(**fields)
        | objects(**mapped)
        | mostly(objects(**mapped), VALUES)
    )


INVENTORY = objects(total=NUMBERS) | some(
    total=NUMBERS,
    reserved=NUMBERS,
    min_unit=NUMBERS,
    max_unit=NUMBERS,
    step_size=NUMBERS,
    allocation_ratio=st.just(4.0) | st.sampled_from([1, 1.5, -1e39, 3.5e38, "1"]),
)
INVENTORIES = st.one_of(
    objects(
        resource_provider_generation=NUMBERS,
        inventories=st.dictionaries(NAMES, mostly(INVENTORY, objects(total=NUMBERS)), max_size=2),
    ),
    VALUES,
)
KEYS = st.sampled_from(["resources", "required", "member_of", "in_tree", "limit", "group_policy"])
QUERIES = st.dictionaries(
    st.one_of(
        KEYS,
        st.tuples(KEYS, SUFFIXES).map("".join),
        st.sampled_from(["root_required", "same_subtree", "resources01", "x"]),
    ),
    st.sampled_from(["", "1", "0", "01", "1\n", "none", "isolate", "VCPU:1", "9" * 30]),
    max_size=3,
)
"""Candidate queries, valid or nearly so."""


def check_law(shape: Shape, value: object) -> None:
    """Check that the schema accepts a value if the handwritten check does."""
    assert shape.is_plain is not None
    is_plain = shape.is_plain(value)
    event(f"plain: {is_plain}")
    if is_plain:
        assert shape.problem_of(value) is None


@pytest.mark.parametrize("step", [step for step in PUT_ALLOCATIONS if step[0] >= 12])
@given(data=st.data())
def test_a_plain_claim_is_a_claim(step: tuple[int, Shape], data: st.DataObject) -> None:
    """A plain body of PUT /allocations is valid, in every version whose bodies are objects."""
    since, shape = step
    check_law(shape, data.draw(claims(since)))


@pytest.mark.parametrize("step", POST_ALLOCATIONS)
@given(data=st.data())
def test_plain_claims_are_claims(step: tuple[int, Shape], data: st.DataObject) -> None:
    """A plain body of POST /allocations is valid, for any number of consumers."""
    since, shape = step
    check_law(shape, data.draw(st.dictionaries(UUID_LIKE, claims(since), max_size=2) | VALUES))


@pytest.mark.parametrize("step", POST_RESHAPER)
@given(data=st.data())
def test_a_plain_reshape_is_a_reshape(step: tuple[int, Shape], data: st.DataObject) -> None:
    """A plain body of POST /reshaper is valid."""
    since, shape = step
    reshape = objects(
        inventories=st.dictionaries(UUID_LIKE, INVENTORIES, max_size=2),
        allocations=st.dictionaries(UUID_LIKE, claims(since), max_size=1),
    )
    check_law(shape, data.draw(mostly(reshape, VALUES)))


@given(value=INVENTORIES)
def test_plain_inventories_are_inventories(value: object) -> None:
    """A plain body of PUT inventories is valid."""
    check_law(PUT_INVENTORIES[0][1], value)


@pytest.mark.parametrize("step", [step for step in LIST_CANDIDATES if step[0] >= 25])
@given(values=QUERIES)
def test_a_plain_query_is_a_query(step: tuple[int, Shape], values: dict[str, str]) -> None:
    """A plain query for candidates is valid, in every version with groups."""
    check_law(step[1], values)
