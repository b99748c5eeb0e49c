"""Tests for IsolatedHostsFilter."""

from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Image
from berth.domain.compute.request import Request
from berth.scheduling.filters import respects_isolation
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

SNAPSHOT = snapshot_of([Box("safe"), Box("safe", node="second"), Box("plain")])


def imaged(image_id: str | None) -> Request:
    """Return a request for an image, or for none."""
    return replace(asking(), image=None if image_id is None else Image(image_id))


@pytest.mark.parametrize(
    ("image_id", "restricted", "kept"),
    [
        ("secret", True, ["safe", "safe"]),
        ("other", True, ["plain"]),
        (None, True, ["plain"]),
        ("secret", False, ["safe", "safe"]),
        ("other", False, None),
        (None, False, None),
    ],
)
def test_image_and_host_are_isolated_together(
    ask: Ask, image_id: str | None, restricted: bool, kept: list[str] | None
) -> None:
    """Isolated images go only to isolated hosts; with the restriction, others only elsewhere."""
    rule = respects_isolation.build(
        isolated_images=("secret",),
        isolated_hosts=("safe", "nowhere"),
        restrict_isolated_hosts_to_isolated_images=restricted,
    )
    assert ask(SNAPSHOT, imaged(image_id)).kept(rule) == kept


@pytest.mark.parametrize(("restricted", "kept"), [(True, ["plain"]), (False, None)])
def test_without_isolated_images_restricted_hosts_get_nothing(
    ask: Ask, restricted: bool, kept: list[str] | None
) -> None:
    """Without isolated images, restricted hosts accept no image."""
    rule = respects_isolation.build(
        isolated_hosts=("safe",), restrict_isolated_hosts_to_isolated_images=restricted
    )
    for image_id in ("secret", None):
        assert ask(SNAPSHOT, imaged(image_id)).kept(rule) == kept


def test_isolated_images_without_hosts_get_nowhere(ask: Ask) -> None:
    """Isolated images without isolated hosts get no host, and other images any."""
    rule = respects_isolation.build(isolated_images=("secret",))
    assert ask(SNAPSHOT, imaged("secret")).kept(rule) == []
    assert ask(SNAPSHOT, imaged("other")).kept(rule) is None
    assert ask(SNAPSHOT, imaged(None)).kept(respects_isolation.build()) is None


def test_the_names_of_hosts_have_case(ask: Ask) -> None:
    """Host names compare with case, as in Nova."""
    rule = respects_isolation.build(isolated_hosts=("SAFE",))
    assert ask(SNAPSHOT, asking()).kept(rule) == ["safe", "safe", "plain"]


def test_the_reason_says_which_of_the_two_is_isolated(ask: Ask) -> None:
    """The reason says whether the image or the host is isolated."""
    rule = respects_isolation.build(isolated_images=("secret", "hidden"), isolated_hosts=("safe",))
    asked = ask(SNAPSHOT, imaged("secret"))
    assert asked.why(rule, 2) == "image secret is isolated, and the host is not"
    assert asked.relaxed(rule, [2]) == [("without isolating the image: 1 host", ("plain",))]
    asked = ask(SNAPSHOT, asking())
    assert asked.why(rule, 0) == "it is reserved for isolated images: hidden, secret"
    assert asked.relaxed(rule, [0]) == [("without isolating the hosts: 1 host", ("safe",))]
    rule = respects_isolation.build(isolated_hosts=("safe",))
    assert asked.why(rule, 0) == "it is reserved for isolated images, and the policy names none"


def test_it_runs_on_rebuild() -> None:
    """The filter runs on rebuilds."""
    assert respects_isolation.build().run_on_rebuild
