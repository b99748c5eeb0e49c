"""Tests for the size of requests, their needs and their derived identifiers."""

from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Image
from berth.domain.compute.request import COUNT_MAX, instance_uuid_of, reservation_id_of
from berth.domain.errors import InvalidInputError
from berth.testing.fleets import asking


def test_a_request_asks_for_at_least_one_instance() -> None:
    """A request without instances is refused."""
    with pytest.raises(InvalidInputError, match="instance_uuids"):
        asking(count=0)


def test_a_request_may_ask_for_as_many_as_the_limit() -> None:
    """A request may contain COUNT_MAX instances; one more is refused."""
    assert len(asking(count=COUNT_MAX).instance_uuids) == COUNT_MAX
    with pytest.raises(InvalidInputError, match=str(COUNT_MAX)):
        asking(count=COUNT_MAX + 1)


def test_a_uuid_counts_once() -> None:
    """A request that lists an instance uuid twice is refused."""
    with pytest.raises(InvalidInputError, match="'a' occurs more than once"):
        replace(asking(), instance_uuids=("a", "a"))


def test_needs_count_the_traits_of_the_image() -> None:
    """The needs include the traits of the image and ignore its other properties."""
    image = Image("i", properties={"trait:A": "required", "os_type": "linux"})
    needs = replace(asking(), image=image).needs
    assert needs.traits_required == {"A"}
    assert needs.amounts == {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}


def test_a_reservation_id_is_that_of_the_request_for_ever() -> None:
    """The reservation id of a request id must never change, because clients search by it."""
    assert reservation_id_of("req-1") == "r-n8ug9zq5"
    assert reservation_id_of("") == "r-q3dd4oru"
    found = {reservation_id_of(f"req-{number}") for number in range(1000)}
    assert len(found) == 1000
    assert all(len(one) == len("r-") + 8 and one[2:].isalnum() for one in found)


def test_an_instance_has_the_uuid_of_its_place_in_the_request() -> None:
    """An instance's uuid is a function of the request id and the index in the request."""
    assert instance_uuid_of("req-1", 0) == instance_uuid_of("req-1", 0)
    assert len({instance_uuid_of(f"req-{r}", i) for r in range(9) for i in range(9)}) == 81
