"""The search for leaks finds every planted secret, and nothing in harmless bytes."""

import os

import pytest

from tests.integration.zone_leaks.canaries import Canaries, leaks_in, planted

ZONE = Canaries("west", 1013, {"MEMORY_MB": 7_368_787, "VCPU": 3_145_739})


@pytest.mark.parametrize(("what", "data"), [pytest.param(*one, id=one[0]) for one in planted(ZONE)])
def test_what_is_planted_is_found(what: str, data: bytes) -> None:
    """A planted name, uuid, address or number is found in every form."""
    assert leaks_in(b'{"id": 1}\n' + data + b"\n{}", [ZONE]), what


def test_nothing_is_found_where_nothing_is() -> None:
    """The search finds nothing in noise or in what zones may disclose."""
    told = b'content-length: 1013\r\n{"weights": [{"weight": 0.7368787, "blob": "%s"}]}' % (
        b"7" * 99
    )
    assert leaks_in(told.replace(b"\r\n", b"\n"), [ZONE]) == []
    assert leaks_in(os.urandom(1_000_000).hex().encode()) == []
    assert leaks_in(b"2027-01-15T08:00:00Z 00000000-0000-4000-8000-000000001013", [ZONE]) == []
