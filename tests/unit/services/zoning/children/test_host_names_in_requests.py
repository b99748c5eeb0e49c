"""Tests for finding requests that ask for host names."""

import json
from dataclasses import replace

import pytest

from berth.domain.compute.request import Request
from berth.scheduling.rules.attributes import HOST_ATTRIBUTES
from berth.services.zoning.children.host_names_in_requests import host_naming_field
from tests.unit.services.zoning.zone_harness import InProcessZones, open_zone_services, request_of


def asking(
    specs: dict[str, str] | None = None, hints: dict[str, tuple[str, ...]] | None = None
) -> Request:
    """Return a request with extra specs and hints."""
    request = request_of()
    return replace(
        request, flavor=replace(request.flavor, extra_specs=specs or {}), hints=hints or {}
    )


@pytest.mark.parametrize("name", sorted(HOST_ATTRIBUTES))
def test_what_names_hosts_is_found(name: str) -> None:
    """A host attribute is found in extra specs and in queries, even if it is escaped."""
    assert host_naming_field(asking({name: "s> m"})) == f"flavor.extra_specs.{name}"
    scoped = f"capabilities:{name}"
    assert host_naming_field(asking({"hw:numa_nodes": "1", scoped: "s> m"})) is not None
    query = json.dumps(["and", [">", "$free_ram_mb", 1], ["not", ["<", f"${name}", "m"]]])
    assert host_naming_field(asking(hints={"query": (query,)})) == "hints.query"
    escaped = query.replace("$", "\\u0024")
    assert host_naming_field(asking(hints={"query": (escaped,)})) == "hints.query"


def test_what_is_near_an_address_is_found() -> None:
    """A request for hosts near an address is found."""
    near = asking(hints={"build_near_host_ip": ("10.0.0.1",), "cidr": ("/8",)})
    assert host_naming_field(near) == "hints.build_near_host_ip"


@pytest.mark.parametrize(
    "request_",
    [
        asking(),
        asking({"capabilities:free_ram_mb": ">= 5", "host:of_others": "x", "hw:cpu_policy": "x"}),
        asking(hints={"same_host": ("a",), "group": ("b",), "query": ("",)}),
        asking(hints={"query": ('[">", "$free_ram_mb", 5]',)}),
        asking(hints={"query": ("no query",)}),
    ],
    ids=["plain", "specs", "hints", "query", "unreadable"],
)
def test_others_are_let_through(request_: Request) -> None:
    """Requests that name no host attribute are not found."""
    assert host_naming_field(request_) is None


async def test_no_child_is_asked_which_host_it_has() -> None:
    """A request that asks for host names is not sent to children."""
    near = InProcessZones()
    root = await open_zone_services("root", near)
    root.adopt(await open_zone_services("west", near))
    await root.selector.select(root.select_order(asking({"host": "s> m"})))
    assert ("west", "select") not in near.asked
    await root.selector.select(root.select_order(asking({"capabilities:vcpus_total": "> 0"})))
    assert ("west", "select") in near.asked
