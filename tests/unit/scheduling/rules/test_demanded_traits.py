"""Traits that flavors and images demand."""

from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.errors import InvalidInputError
from berth.scheduling.rules.demanded_traits import (
    asked_by_both,
    image_properties,
    is_asked_by_either,
    said,
    trait_filter,
    trait_of,
)
from berth.scheduling.rules.rule import Query
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = trait_filter(
    "DemoFilter",
    lambda query: {f"CUSTOM_{key.upper()}": key for key in query.request.hints},
    request=("hints",),
)
SNAPSHOT = snapshot_of(
    [
        Box("both", traits=frozenset({"CUSTOM_A", "CUSTOM_B"})),
        Box("one", traits=frozenset({"CUSTOM_A"})),
        Box("none"),
    ]
)


def query_of(specs: dict[str, str], properties: dict[str, str] | None) -> Query:
    """Return the query of a flavor with extra specs and of an image, or of none."""
    image = None if properties is None else Image("i", properties=properties)
    request = replace(asking(Flavor("1", "f", 1, 1, extra_specs=specs)), image=image)
    return Query(request, request.needs, NOW_S, None, "new-0")


def test_hosts_need_every_trait(ask: Ask) -> None:
    """Nothing is said of a query that demands none."""
    assert ask(SNAPSHOT, asking()).kept(RULE) is None
    assert ask(SNAPSHOT, replace(asking(), hints={"a": ()})).kept(RULE) == ["both", "one"]
    assert ask(SNAPSHOT, replace(asking(), hints={"a": (), "b": ()})).kept(RULE) == ["both"]
    assert ask(SNAPSHOT, replace(asking(), hints={"nobody_has": ()})).kept(RULE) == []


def test_reasons_name_the_trait_and_what_demands_it(ask: Ask) -> None:
    """A relaxation wins the hosts that lack just one."""
    asked = ask(SNAPSHOT, replace(asking(), hints={"a": (), "b": ()}))
    assert asked.why(RULE, 1) == "it lacks CUSTOM_B, which b demands"
    assert asked.why(RULE, 2) == (
        "it lacks CUSTOM_A, which a demands; it lacks CUSTOM_B, which b demands"
    )
    assert asked.relaxed(RULE, [1, 2]) == [("without b: 1 host", ("one",))]


def test_traits_are_named_as_in_os_traits() -> None:
    """Upper case, without dashes; what is said of a value is never long."""
    assert trait_of("COMPUTE_NET_VIF_MODEL", "ne2k-pci") == "COMPUTE_NET_VIF_MODEL_NE2K_PCI"
    assert said("key", "v" * 200) == "key=" + "v" * 80
    assert image_properties(query_of({}, None)) == {}


@pytest.mark.parametrize(
    ("spec", "image", "asked"),
    [
        (None, None, ("", "")),
        ("a", None, ("a", "hw:x=a")),
        (None, "b", ("b", "hw_x=b")),
        ("a", "a", ("a", "hw:x=a and hw_x=a")),
        ("", "b", ("b", "hw_x=b")),
    ],
)
def test_flavor_and_image_may_both_ask(
    spec: str | None, image: str | None, asked: tuple[str, str]
) -> None:
    """They have to agree."""
    specs = {} if spec is None else {"hw:x": spec}
    properties = None if image is None else {"hw_x": image}
    assert asked_by_both(query_of(specs, properties), "x") == asked


def test_what_they_do_not_agree_on_is_refused() -> None:
    """As Nova's API does."""
    query = query_of({"hw:x": "a", "hw:y": "yes"}, {"hw_x": "b", "hw_y": "no"})
    for ask_both in (lambda: asked_by_both(query, "x"), lambda: is_asked_by_either(query, "y")):
        with pytest.raises(InvalidInputError, match="make them equal"):
            ask_both()


@pytest.mark.parametrize(
    ("spec", "image", "asked"),
    [
        (None, None, (False, "")),
        ("true", None, (True, "hw:x=true")),
        ("0", None, (False, "hw:x=0")),
        (None, " Yes", (True, "hw_x= Yes")),
        ("on", "1", (True, "hw:x=on and hw_x=1")),
        ("off", "nonsense", (False, "hw:x=off and hw_x=nonsense")),
    ],
)
def test_words_for_yes_are_those_of_nova(
    spec: str | None, image: str | None, asked: tuple[bool, str]
) -> None:
    """Whatever is not one of them is no."""
    specs = {} if spec is None else {"hw:x": spec}
    properties = None if image is None else {"hw_x": image}
    assert is_asked_by_either(query_of(specs, properties), "x") == asked
