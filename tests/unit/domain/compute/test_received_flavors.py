"""Flavors and images in orders of other processes and zones: their sizes are limited."""

from dataclasses import replace

import pytest

from berth.domain.compute.flavor import SIZE_MAX, Flavor, Image, check_received
from berth.domain.errors import InvalidInputError
from berth.services.requests.orders import PlaceOrder, check_order
from berth.testing.builders import make_flavor, make_request
from tests.unit.services.wiring import order_of

_FLAVOR, _IMAGE = make_flavor(1), Image("image-1")
_LARGE = 2**40


def test_what_a_client_can_set_is_accepted() -> None:
    """The largest flavor of the compute API passes, with or without an image."""
    largest = replace(
        _FLAVOR, vcpus=SIZE_MAX, memory_mb=SIZE_MAX, root_gb=SIZE_MAX, swap_mb=SIZE_MAX
    )
    check_received(largest, None)
    check_received(_FLAVOR, replace(_IMAGE, properties={"a": "x" * 65_535}))
    check_received(
        replace(_FLAVOR, extra_specs={f"{n:0255}": "x" * 255 for n in range(1_024)}), _IMAGE
    )


@pytest.mark.parametrize(
    ("flavor", "image"),
    [
        (replace(_FLAVOR, vcpus=_LARGE), None),
        (replace(_FLAVOR, memory_mb=_LARGE), None),
        (replace(_FLAVOR, root_gb=_LARGE), None),
        (replace(_FLAVOR, ephemeral_gb=_LARGE), None),
        (replace(_FLAVOR, swap_mb=_LARGE), None),
        (replace(_FLAVOR, name="n" * 256), None),
        (replace(_FLAVOR, flavor_id="n" * 256), None),
        (replace(_FLAVOR, description="d" * 70_000), None),
        (replace(_FLAVOR, extra_specs={f"{n}": "x" for n in range(1_025)}), None),
        (replace(_FLAVOR, extra_specs={"k" * 256: "x"}), None),
        (replace(_FLAVOR, extra_specs={"k": "x" * 256}), None),
        (_FLAVOR, replace(_IMAGE, image_id="i" * 256)),
        (_FLAVOR, replace(_IMAGE, min_disk_gb=_LARGE)),
        (_FLAVOR, replace(_IMAGE, min_memory_mb=-1)),
        (_FLAVOR, replace(_IMAGE, properties={f"{n}": "x" for n in range(1_025)})),
        (_FLAVOR, replace(_IMAGE, properties={f"{n}": "x" * 60_000 for n in range(9)})),
    ],
)
def test_larger_values_are_refused(flavor: Flavor, image: Image | None) -> None:
    """A value that no client could have set is refused, by itself and in an order."""
    with pytest.raises(InvalidInputError):
        check_received(flavor, image)
    order = order_of(make_request(1))
    forged = PlaceOrder(replace(order.request, flavor=flavor, image=image), order.instances)
    with pytest.raises(InvalidInputError):
        check_order(forged)
    inside = tuple(replace(one, flavor=flavor, image=image) for one in order.instances)
    with pytest.raises(InvalidInputError):
        check_order(PlaceOrder(order.request, inside))
