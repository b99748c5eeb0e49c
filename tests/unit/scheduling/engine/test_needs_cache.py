"""Tests for the needs cache, which recognises equal flavors and images."""

from dataclasses import replace
from functools import partial

import pytest

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.request import Request
from berth.scheduling.engine import needs_cache
from berth.scheduling.engine.needs_cache import NeedsCache
from berth.testing.fleets import asking

SPECS = {"resources1:VCPU": "1", "resources2:VCPU": "2"}
IMAGE = Image("i", properties={"os": "x", "arch": "y"})
PLAIN = replace(asking(specs=SPECS), image=IMAGE)


def again(request: Request) -> Request:
    """Return an equal request with new objects, as decoded from the network."""
    flavor, image = request.flavor, request.image
    assert image is not None
    return replace(
        request,
        flavor=replace(flavor, extra_specs=dict(flavor.extra_specs)),
        image=replace(image, properties=dict(image.properties)),
    )


def turned(flavor: Flavor) -> Flavor:
    """Return an equal flavor whose mappings have another order."""
    return replace(flavor, extra_specs=dict(reversed(list(flavor.extra_specs.items()))))


@pytest.fixture
def known() -> NeedsCache[str]:
    """Return a cache with one request."""
    known = NeedsCache[str]()
    assert known.get(PLAIN, lambda: "first") == "first"
    return known


@pytest.mark.parametrize("request_", [PLAIN, again(PLAIN), replace(PLAIN, request_id="r")])
def test_equal_flavors_and_images_are_found(known: NeedsCache[str], request_: Request) -> None:
    """A request is found by the same or by an equal flavor and image."""
    assert known.get(request_, lambda: "made") == "first"


@pytest.mark.parametrize(
    "request_",
    [
        replace(PLAIN, flavor=replace(PLAIN.flavor, vcpus=7)),
        replace(PLAIN, flavor=replace(PLAIN.flavor, flavor_id="other")),
        replace(PLAIN, flavor=turned(PLAIN.flavor)),
        replace(PLAIN, image=None),
        replace(PLAIN, image=replace(IMAGE, properties={"os": "z", "arch": "y"})),
        replace(PLAIN, image=replace(IMAGE, properties={"arch": "y", "os": "x"})),
    ],
)
def test_different_ones_are_not(known: NeedsCache[str], request_: Request) -> None:
    """Requests that differ in the flavor or the image do not match.

    A different order of extra specs counts as a difference, because it orders request groups.
    """
    assert known.get(request_, lambda: "made") == "made"
    assert known.get(again(PLAIN), lambda: "made anew") in {"first", "made anew"}


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache keeps a limited number of entries."""
    monkeypatch.setattr(needs_cache, "_KEPT_MAX", 4)
    known = NeedsCache[int]()
    for number in range(20):
        flavor = replace(PLAIN.flavor, flavor_id=f"f-{number}")
        request = replace(PLAIN, flavor=flavor)
        assert known.get(request, partial(int, number)) == number
        assert len(known._known) <= 4
        assert len(known._newest) <= 4
