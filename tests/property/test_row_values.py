"""Values that weighers cache per row equal those that they compute afresh."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berth.domain.compute.request import Request
from berth.domain.ledger.change import Event, Snapshot
from berth.scheduling.weighers import left_capacity, unasked_features, usable_capacity
from berth.tables.host.feed import apply_event, table_of
from berth.testing.fleet_strategies import snapshots
from berth.testing.tree_strategies import with_trees
from tests.property.test_rule_locality import REQUESTS, ask, query_of

FLEETS = with_trees(snapshots(least=2))
WEIGHERS = (left_capacity.build(), unasked_features.build(), usable_capacity.build())


@given(snapshot=FLEETS, later=FLEETS, request=REQUESTS, data=st.data())
def test_weighers_say_the_same_of_a_table_that_was_followed(
    snapshot: Snapshot, later: Snapshot, request: Request, data: st.DataObject
) -> None:
    """After any changes, a weigher's cached values equal those with all caches cleared."""
    hosts = table_of(snapshot)
    query = query_of(hosts, request)
    records: list[Event] = [*later.hosts, *later.providers]
    for record in data.draw(st.lists(st.sampled_from(records), max_size=6)):
        for weigher in WEIGHERS:
            ask(weigher, hosts, query, hosts.all_rows)
        if data.draw(st.booleans()):
            apply_event(hosts, record)
        else:
            hosts.remove_provider(getattr(record, "uuid"))  # noqa: B009 - both kinds have one
    followed = [ask(weigher, hosts, query, hosts.all_rows) for weigher in WEIGHERS]
    hosts.caches.clear()
    anew = [ask(weigher, hosts, query, hosts.all_rows) for weigher in WEIGHERS]
    for weigher, mine, theirs in zip(WEIGHERS, followed, anew, strict=True):
        assert (weigher.name, mine is None) == (weigher.name, theirs is None)
        if mine is not None and theirs is not None:
            np.testing.assert_array_equal(mine, theirs, err_msg=weigher.name)
