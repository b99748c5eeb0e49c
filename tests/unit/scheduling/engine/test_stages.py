"""Tests that updating one row gives the stage of a full evaluation."""

from itertools import product

import pytest

from berth.domain.inventory.resources import VCPU
from berth.scheduling.engine.stages import Stages
from berth.scheduling.filters import below_host_limits, fits_resources, has_traits
from berth.scheduling.rules.rule import Filter, Query
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of

FILTERS: tuple[Filter, ...] = (
    fits_resources.build(),
    has_traits.build(),
    below_host_limits.build_num_instances(max_instances_per_host=1),
)


@pytest.mark.parametrize(("with_trait", "full"), list(product((True, False), repeat=2)))
@pytest.mark.parametrize("turned", [0, 1])
def test_one_updated_row_gets_the_stage_of_a_full_evaluation(
    with_trait: bool, full: bool, turned: int
) -> None:
    """An updated row has the stage of a full evaluation, whichever filter removes it."""
    fast = frozenset({"CUSTOM_FAST"})
    mine = fast if with_trait else frozenset[str]()
    hosts = table_of(snapshot_of([Box("a", traits=mine), Box("b", traits=fast)]))
    request = asking(specs={"trait:CUSTOM_FAST": "required"})
    query = Query(request, request.needs, NOW_S, None, request.instance_uuids[0])
    row = hosts.row_of(Box("a").host.uuid)
    assert row is not None
    filters = FILTERS[turned:] + FILTERS[:turned]
    stages = Stages(hosts, filters, (), query)
    if full:
        hosts.hold(row, {VCPU: 1_000_000})
    hosts.put_instance(hosts.host(row).uuid, query.resident_with(None))
    passes = stages.update_one(query, row)
    anew = Stages(hosts, filters, (), query)
    assert not passes
    assert stages.stage.tolist() == anew.stage.tolist()
    assert stages.filter_counts() == anew.filter_counts()
    hosts.remove_instance(query.instance_uuid)
    if full:
        hosts.release_hold(row, {VCPU: 1_000_000})
    assert stages.update_one(query, row) is with_trait
    assert stages.filter_counts() == Stages(hosts, filters, (), query).filter_counts()
