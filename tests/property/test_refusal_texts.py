"""What tenants may read of refusals."""

import re

from hypothesis import given
from hypothesis import strategies as st

from berth.domain.compute.decision import NO_HOST, RefusalDetail
from tests.property.relaxation_worlds import RelaxationWorld, refusal_in

COUNTED = re.compile(r"(?:[\d,]+|\bno) (?:hosts?|more compute services?)\b")


@given(seed=st.integers(0, 2**63 - 1))
def test_tenants_read_neither_numbers_of_hosts_nor_names_of_rules(seed: int) -> None:
    """The reduced messages of a refusal have its changes, and nothing about hosts and rules."""
    refusal = refusal_in(RelaxationWorld(seed))
    assert refusal.told(RefusalDetail.FULL) == refusal.message
    assert refusal.told(RefusalDetail.NOTHING) == refusal.summary
    assert (refusal.summary == NO_HOST) is bool(refusal.filters)
    read = refusal.told(RefusalDetail.RELAXATIONS)
    assert read.startswith(refusal.summary)
    assert "Filter" in refusal.message or COUNTED.search(refusal.message)
    assert not COUNTED.search(read)
    assert "Filter" not in read
    for one in refusal.relaxations:
        assert COUNTED.search(one.text) or not one.hosts
        assert not COUNTED.search(one.what)
    shown = [one.what for one in refusal.relaxations if one.filter != "count"][:3]
    assert all(what in read for what in shown)
