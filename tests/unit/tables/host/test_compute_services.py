"""Tests for the storage of compute services in host columns or as whole records."""

from dataclasses import fields, replace
from typing import Any

import pytest

from berth.domain.compute.build_failure import FailureCause, FailureCount
from berth.domain.compute.host import Attestation, HostAudit, HostNotice, Service
from berth.domain.inventory.resources import AMOUNT_MAX
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import Box

AUDIT = HostAudit(found_total=1, mended=(HostNotice("orphaned_allocation", "u", "t", 1.0),))
FAILURES = (FailureCount("project-1", FailureCause.DRIVER, 2.0, 4.0),)
PLAIN = Service("a", "id", last_seen_s=5.0, created_at_s=2.0, failed_builds=3, failed_at_s=4.0)
SERVICES = [
    PLAIN,
    replace(PLAIN, service_id="0123abcd-89ab-4cde-8f01-23456789abcd", forced_down=True),
    replace(PLAIN, disabled=True),
    replace(PLAIN, disabled=True, disabled_reason="repair"),
    replace(PLAIN, audit=AUDIT),
    replace(PLAIN, build_failures=FAILURES, failure_level=1.0),
    replace(PLAIN, attestations={"n1": Attestation("trusted", 9.0)}),
    replace(PLAIN, failed_builds=AMOUNT_MAX + 1),
    replace(PLAIN, failed_builds=-1),
]


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("nodes", [0, 1, 2])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_service_comes_back_as_it_was_put(
    service: Service, nodes: int, *, is_first: bool
) -> None:
    """A service is read back unchanged, whether its hosts come first, later or never."""
    hosts = HostTable()
    boxes = [Box("a", f"n{number}") for number in range(nodes)]
    if is_first:
        hosts.put_service(service)
    for box in boxes:
        hosts.put_host(box.host)
    if not is_first:
        hosts.put_service(service)
    assert hosts.services.get("a") == service
    hosts.put_seen(["a"], 7.0)
    assert hosts.services.get("a") == replace(service, last_seen_s=7.0)
    for box in boxes:
        assert hosts.last_seen_s.max(initial=0.0) == 7.0
        hosts.remove_host(box.host.uuid)
        assert hosts.services.get("a") == replace(service, last_seen_s=7.0)
    hosts.remove_service("a")
    assert hosts.services.get("a") is None


FIELDS = {
    "service_id": "0123abcd-89ab-4cde-8f01-23456789abcd",
    "disabled": True,
    "disabled_reason": "repair",
    "forced_down": True,
    "last_seen_s": 1.5,
    "created_at_s": 2.5,
    "failed_builds": 3,
    "failed_at_s": 4.5,
    "attestations": {"a": Attestation("trusted", 9.0)},
    "audit": AUDIT,
    "build_failures": FAILURES,
    "failure_level": 1.5,
}


@pytest.mark.parametrize("field", [one.name for one in fields(Service) if one.name != "host"])
def test_no_field_of_a_service_is_forgotten(field: str) -> None:
    """Every field of `Service` is stored; a new field needs a value in this test."""
    hosts = HostTable()
    hosts.put_host(Box("a").host)
    changes: dict[str, Any] = {field: FIELDS[field]}
    service = replace(Service("a", "id"), **changes)
    hosts.put_service(service)
    assert hosts.services.get("a") == service != Service("a", "id")


def test_a_service_that_turns_plain_again_is_only_in_the_columns() -> None:
    """A service that fits the columns again is read from them."""
    hosts = HostTable()
    hosts.put_host(Box("a").host)
    for service in (*SERVICES, PLAIN):
        hosts.put_service(service)
        assert hosts.services.get("a") == service
    hosts.put_host(replace(Box("a").host, name="b"))
    assert (hosts.services.get("a"), hosts.services.get("b")) == (PLAIN, None)
