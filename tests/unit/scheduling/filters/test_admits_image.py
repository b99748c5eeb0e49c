"""AggregateImagePropertiesIsolation: hosts that are kept for kinds of images."""

from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Image
from berth.domain.compute.request import Request
from berth.scheduling.filters import admits_image
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = admits_image.build()
FLEET = snapshot_of(
    [Box("a"), Box("b"), Box("c")],
    aggregates=[
        Aggregate(1, "u1", "n1", frozenset("ab"), {"os_type": "linux", "hw.arch": "arm"}),
        Aggregate(2, "u2", "n2", frozenset("b"), {"os_type": "windows, bsd", "empty": ""}),
    ],
)


def booting(**properties: str) -> Request:
    """Return a request with an image."""
    return replace(asking(), image=Image("i", properties=properties))


@pytest.mark.parametrize(
    ("request_", "kept"),
    [
        (asking(), None),
        (booting(), None),
        (booting(os_type=""), None),
        (booting(os_type="linux"), ["a", "b", "c"]),
        (booting(os_type="windows"), ["b", "c"]),
        (booting(os_type="Linux"), ["c"]),
        (booting(os_distro="any"), ["a", "b", "c"]),
        (booting(empty="x"), ["a", "c"]),
        (booting(os_type="linux", **{"hw.arch": "x86"}), ["c"]),
    ],
)
def test_what_a_key_lists_is_what_images_may_have(
    ask: Ask, request_: Request, kept: list[str] | None
) -> None:
    """Images without the property pass, and so do all on hosts without the key."""
    assert ask(FLEET, request_).kept(RULE) == kept


@pytest.mark.parametrize(
    ("namespace", "separator", "kept"),
    [("hw", ".", ["c"]), ("hw", "_", None), ("os", "_", ["a", "b", "c"]), ("", ".", ["c"])],
)
def test_a_namespace_leaves_other_keys_out(
    ask: Ask, namespace: str, separator: str, kept: list[str] | None
) -> None:
    """Names stay whole."""
    rule = admits_image.build(
        aggregate_image_properties_isolation_namespace=namespace,
        aggregate_image_properties_isolation_separator=separator,
    )
    asked = ask(FLEET, booting(os_type="linux", **{"hw.arch": "x86"}))
    assert asked.kept(rule) == kept


def test_the_reason_names_list_and_value(ask: Ask) -> None:
    """A host that one property loses can be won by dropping it."""
    asked = ask(FLEET, booting(os_type="plan9", **{"hw.arch": "x86"}))
    assert asked.why(RULE, 1) == (
        "it is kept for images with os_type bsd, linux, windows, and the image has plan9; "
        "hw.arch arm, and the image has x86"
    )
    assert asked.relaxed(RULE, [0, 1]) == []
    asked = ask(FLEET, booting(os_type="plan9"))
    assert asked.relaxed(RULE, [0, 1]) == [
        ("without the image property os_type: 2 hosts", ("a", "b"))
    ]


def test_it_runs_once_a_request_and_on_rebuild() -> None:
    """A rebuild may bring another image."""
    assert RULE.once_per_request
    assert RULE.run_on_rebuild
