"""Tests for JSON queries: their meaning and their validation."""

import json

import numpy as np
import pytest

from berth.domain.errors import InvalidInputError
from berth.scheduling.rules.json_query import (
    DEPTH_MAX,
    TERMS_MAX,
    TEXT_MAX,
    JsonAttribute,
    attributes_of,
    demands_of,
    parse,
    satisfies,
    value_of,
)
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import Box, resident, sized, snapshot_of

A = Box(
    "a",
    inventories=sized(8, 4096, 100),
    used={"MEMORY_MB": 1024},
    stats={"rack": "r1", "rank": "3"},
    cpu_info={"arch": "x86_64", "topology": {"cores": 4}, "features": ["avx"]},
    host_ip="10.0.0.1",
)
B = Box("b", node="n", inventories=sized(2, 1024, 100), hypervisor_type="kvm")
HOSTS = table_of(snapshot_of([A, B], instances=[resident("i", B)]))


def kept(query: object, hosts: HostTable = HOSTS) -> str:
    """Return the joined names of the hosts that satisfy a query."""
    parsed = parse(json.dumps(query))
    assert parsed is not None
    mask = satisfies(parsed, hosts, hosts.all_rows)
    return "".join(hosts.names(np.flatnonzero(mask & hosts.alive)))


@pytest.mark.parametrize(
    ("query", "hosts"),
    [
        (["=", "$free_ram_mb", 3072], "a"),
        (["=", "$free_ram_mb", 3072.0], "a"),
        (["=", "$free_ram_mb", "3072"], ""),
        ([">=", "$free_ram_mb", 1024], "ab"),
        ([">", "$free_ram_mb", 1024], "a"),
        (["<=", "$free_ram_mb", 1024], "b"),
        (["<", 1024, "$free_ram_mb"], "a"),
        (["<", 100, "$free_ram_mb", "$vcpus_total"], ""),
        ([">", "$free_ram_mb", "$vcpus_total", "$num_instances"], "ab"),
        (["=", "$num_instances", 1], "b"),
        (["in", "$hypervisor_type", "QEMU", "xen"], "a"),
        (["in", "$hypervisor_type"], ""),
        (["in", "$vcpus_total", 1, 2, 3], "b"),
        (["not", ["=", "$vcpus_total", 2]], "a"),
        (["not", ["=", "$vcpus_total", 2], ["=", "$vcpus_total", 8]], "ab"),
        (["not"], ""),
        (["or", ["=", "$vcpus_total", 2], ["=", "$free_ram_mb", 3072]], "ab"),
        (["or"], ""),
        (["and", ["=", "$vcpus_total", 8], ["=", "$free_ram_mb", 3072]], "a"),
        (["and", ["=", "$vcpus_total", 8], ["not", ["=", "$free_ram_mb", 3072]]], ""),
        (["and"], "ab"),
        (["and", []], "ab"),
        (["and", "$num_instances"], "b"),
        (["=", ["=", "$vcpus_total", 8], True], "a"),
    ],
)
def test_operators_hold_the_first_against_all_others(query: object, hosts: str) -> None:
    """Operators compare the first argument with all others; texts and numbers never match."""
    assert kept(query) == hosts


@pytest.mark.parametrize(
    ("query", "hosts"),
    [
        (["=", "$cpu_info.arch", "x86_64"], "a"),
        (["=", "$cpu_info.topology.cores", 4], "a"),
        (["=", "$cpu_info.features", "avx"], ""),
        (["=", "$stats.rack", "r1"], "a"),
        (["=", "$rack", "r1"], "a"),
        (["<", "$rank", 4], ""),
        (["=", "$rank", "3"], "a"),
        (["=", "$host", "a"], "a"),
        (["=", "$nodename", "n"], "b"),
        (["in", "$hypervisor_hostname", "a", "n"], "ab"),
        (["=", "$host_ip", "10.0.0.1"], "a"),
        (["=", "$uuid", "b/n"], "b"),
        (["=", "$host.name", "a"], ""),
        (["=", "$free_ram_mb.x", 3072], ""),
        (["=", "$", ""], ""),
        (["=", "$hypervisor_version", 6_002_000], "ab"),
    ],
)
def test_attributes_are_opened_at_keys(query: object, hosts: str) -> None:
    """Attributes are read by name and nested key."""
    assert kept(query) == hosts


@pytest.mark.parametrize(
    ("query", "hosts"),
    [
        (["=", "$nothing", 1], ""),
        (["=", 1, "$nothing"], ""),
        (["=", "$nothing", 1, 1], "ab"),
        (["=", 1, 1, "$rack"], "b"),
        (["=", "r1", "r1", "$rack"], "ab"),
        (["not", "$nothing"], ""),
        (["and", "$nothing"], "ab"),
        (["or", "$nothing", None, ""], ""),
        (["=", None, 1, 1, ""], "ab"),
    ],
)
def test_what_is_missing_is_left_out(query: object, hosts: str) -> None:
    """Missing attributes, nulls and empty texts are left out of an operator's arguments."""
    assert kept(query) == hosts


def test_a_verdict_does_not_depend_on_the_other_rows() -> None:
    """A row's verdict does not depend on other rows."""
    hosts = table_of(snapshot_of([A, B, Box("gone")]))
    hosts.remove_host("gone/gone")
    query = parse('["or", ["=", "$host", "a"], ["=", "$rack", "r2"]]')
    assert query is not None
    assert satisfies(query, hosts, hosts.all_rows).tolist() == [True, False, False]
    assert satisfies(query, hosts, np.array([1])).tolist() == [False]
    assert satisfies(query, hosts, np.array([1, 0])).tolist() == [False, True]
    assert satisfies(query, hosts, np.array([], dtype=np.intp)).tolist() == []


def test_many_distinct_values_are_told_apart() -> None:
    """Comparisons are right for many distinct values."""
    boxes = [Box(f"h{n:03}", inventories=sized(n + 1, 1000 + n, 10)) for n in range(100)]
    hosts = table_of(snapshot_of(boxes))
    query = parse(
        '["and", [">=", "$free_ram_mb", "$vcpus_total", 1050], ["<", "$vcpus_total", 60]]'
    )
    assert query is not None
    assert np.flatnonzero(satisfies(query, hosts, hosts.all_rows)).tolist() == [*range(50, 59)]


def test_a_query_falls_into_what_has_to_hold() -> None:
    """The demands of a query are the parts of a top-level `and`, or the whole query."""
    query = parse('["and", ["=", "$rack", "r1"], ["or", ["<", 1, "$a.b"]]]')
    assert query is not None
    assert [str(one) for one in demands_of(query)] == [
        '["=", "$rack", "r1"]',
        '["or", ["<", 1, "$a.b"]]',
    ]
    for text in ('["or", ["=", 1, 1]]', '["and", ["=", 1, 1], true]'):
        query = parse(text)
        assert query is not None
        assert [str(one) for one in demands_of(query)] == [text]


def test_attributes_and_their_values_are_named() -> None:
    """The attributes of a query are listed with a host's values."""
    query = parse('["and", ["=", "$rack", "r1", 5], ["<", "$cpu_info.arch", "$vcpus_total"]]')
    assert query is not None
    names = [
        JsonAttribute(("rack",)),
        JsonAttribute(("cpu_info", "arch")),
        JsonAttribute(("vcpus_total",)),
    ]
    assert list(attributes_of(query)) == names
    assert [value_of(name, HOSTS, 0) for name in names] == ["r1", "x86_64", 8]
    assert [value_of(name, HOSTS, 1) for name in names] == [None, None, 2]


def test_an_empty_query_is_none() -> None:
    """An empty query parses to None."""
    assert parse(" [] ") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not valid JSON"),
        ("nonsense", "is not valid JSON"),
        ("[", "is not valid JSON"),
        ('["=", NaN, 1]', "NaN is not a number in JSON"),
        ('["=", -Infinity, 1]', "is not a number"),
        ('["=", 1e999, 1]', "too large"),
        ("9" * 5000, "is not valid JSON"),
        ("null", "must be a list"),
        ('"text"', "must be a list"),
        ('{"=": [1, 1]}', "must be a list"),
        ('["=", {"a": 1}, 1]', "must be a list, a string, a number or a boolean"),
        ('["like", "$a", "b"]', "'like' is not an operator; begin each list with one of = <"),
        ("[1, 2]", "1 is not an operator"),
        ('[["="], 2]', "['='] is not an operator"),
        ('["and", ["x"]]', "'x' is not an operator"),
        ('["__class__", 1]', "is not an operator"),
        ("[" * (DEPTH_MAX + 2) + "]" * (DEPTH_MAX + 2), "is not an operator"),
        ('["not", ' * (DEPTH_MAX + 1) + "1" + "]" * (DEPTH_MAX + 1), "nested too deeply"),
        ("[" * 10_000, "nested too deeply"),
        (json.dumps(["and", *[1] * TERMS_MAX]), "more than 128 operators and arguments"),
        (json.dumps(["=", "x" * TEXT_MAX]), "characters long"),
    ],
)
def test_what_is_no_query_is_refused(text: str, reason: str) -> None:
    """An invalid query is refused with its flaw."""
    with pytest.raises(InvalidInputError) as caught:
        parse(text)
    assert caught.value.field == "hints.query"
    assert reason in caught.value.reason


def test_the_largest_queries_are_taken() -> None:
    """Queries at the limits of depth and length are accepted."""
    assert kept(json.loads('["and", ' * DEPTH_MAX + "1" + "]" * DEPTH_MAX)) == "ab"
    assert kept(["and", *[1] * (TERMS_MAX - 1)]) == "ab"
    assert kept(["not", 10**400]) == ""
