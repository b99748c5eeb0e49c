"""Tests for TrustedFilter."""

from dataclasses import replace

import numpy as np
import pytest

from berth.domain.compute.host import Attestation
from berth.scheduling.filters import is_trusted
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = is_trusted.build()
SNAPSHOT = snapshot_of(
    [
        Box("good", attestation=Attestation("trusted", NOW_S + 30)),
        Box("last", attestation=Attestation("trusted", NOW_S)),
        Box("late", attestation=Attestation("trusted", NOW_S - 12)),
        Box("bad", attestation=Attestation("untrusted", NOW_S + 60)),
        Box("strange", attestation=Attestation("unknown", NOW_S + 60)),
        Box("none"),
    ]
)


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        ("trusted", ["good", "last"]),
        ("untrusted", ["bad"]),
        ("unknown", ["late", "strange", "none"]),
        ("Trusted", []),
        ("", None),
    ],
)
def test_the_level_has_to_be_that_of_the_flavor(
    ask: Ask, level: str, kept: list[str] | None
) -> None:
    """A host needs the flavor's level; expired and missing attestations count as unknown."""
    assert ask(SNAPSHOT, asking(specs={"trust:trusted_host": level})).kept(RULE) == kept


def test_flavors_without_the_spec_go_anywhere(ask: Ask) -> None:
    """The filter does not apply to flavors without the extra spec."""
    assert ask(SNAPSHOT, asking()).kept(RULE) is None


def test_each_node_of_a_host_has_its_own_level(ask: Ask) -> None:
    """Each node of a service has its own attestation."""
    boxes = [Box("host", node="a"), Box("host", node="b"), Box("host", node="c")]
    snapshot = snapshot_of(boxes)
    levels = {
        "a": Attestation("untrusted", NOW_S + 60),
        "b": Attestation("trusted", NOW_S + 60),
        "d": Attestation("trusted", NOW_S + 60),
    }
    service = replace(snapshot.services[0], attestations=levels)
    asked = ask(
        replace(snapshot, services=(service,)), asking(specs={"trust:trusted_host": "trusted"})
    )
    rows = asked.hosts.all_rows
    kept = RULE.keep(asked.hosts, asked.query, rows)
    assert kept is not None
    assert [asked.hosts.host(row).node for row in np.flatnonzero(kept).tolist()] == ["b"]


def test_verdicts_hold_until_the_first_attestation_ends(ask: Ask) -> None:
    """Verdicts hold until the first valid attestation expires, or forever."""
    asked = ask(SNAPSHOT, asking())
    assert RULE.holds_until is not None
    assert RULE.holds_until(asked.hosts, asked.query, np.array([0, 2, 3])) == NOW_S + 30
    assert RULE.holds_until(asked.hosts, asked.query, np.array([2, 5])) == float("inf")


def test_the_reason_names_the_level(ask: Ask) -> None:
    """The reason names the host's level and the required one."""
    asked = ask(SNAPSHOT, asking(specs={"trust:trusted_host": "trusted"}))
    assert asked.why(RULE, 2) == (
        "its attestation as 'trusted' expired 12 s ago; the flavor requires "
        "trust:trusted_host=trusted"
    )
    assert asked.why(RULE, 3) == (
        "it is attested as 'untrusted'; the flavor requires trust:trusted_host=trusted"
    )
    assert (
        asked.why(RULE, 5) == "it is not attested; the flavor requires trust:trusted_host=trusted"
    )
    assert asked.relaxed(RULE, [3, 5]) == [
        ("without the extra spec trust:trusted_host: 2 hosts", ("bad", "none"))
    ]
