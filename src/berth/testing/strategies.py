"""Hypothesis strategies for domain objects, one per type.

They draw from the whole range of valid values; `berth.testing.fleet_strategies` draws realistic
fleets instead.
"""

from typing import Final

from hypothesis import strategies as st

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.build_failure import FailureCause, FailureCount
from berth.domain.compute.decision import (
    Decision,
    FilterCount,
    Placement,
    Refusal,
    RefusalCode,
    Relaxation,
    ScoredHost,
    ScorePart,
    Verdict,
)
from berth.domain.compute.host import Attestation, Host, Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.instance_action import Action, ActionEvent
from berth.domain.compute.migration import Migration, MoveKind, Place, Stage
from berth.domain.compute.quota import LIMITED, Quota
from berth.domain.compute.request import Destination, Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import AMOUNT_MAX
from berth.domain.ledger.record import PendingRequest, Record
from berth.testing.hardware_fleets import generators, random_cells, random_pools
from berth.testing.value_strategies import (
    SIZE_MAX,
    amounts_by_class,
    assignments,
    counts,
    faults,
    flavors,
    hint_maps,
    images,
    inventories,
    json_maps,
    names,
    pairs,
    scores,
    seconds,
    text_maps,
    text_tuples,
    texts,
    uuids,
)
from berth.testing.zone_strategies import remote_instances, zones


def hosts() -> st.SearchStrategy[Host]:
    """Draw a host."""
    return st.builds(
        Host,
        uuid=uuids,
        name=texts,
        node=texts,
        hypervisor_type=texts,
        hypervisor_version=counts,
        host_ip=texts,
        cpu_info=json_maps,
        supported_instances=st.lists(st.tuples(texts, texts, texts), max_size=2).map(tuple),
        stats=text_maps,
        cell=texts,
        metrics=st.dictionaries(texts, scores, max_size=SIZE_MAX),
        numa_cells=generators().map(random_cells),
        pci_pools=generators().map(lambda rng: random_pools(rng, random_cells(rng))),
    )


def attestations() -> st.SearchStrategy[Attestation]:
    """Draw an attestation of a machine."""
    return st.builds(Attestation, level=texts, valid_until_s=seconds)


def failure_counts() -> st.SearchStrategy[FailureCount]:
    """Draw a count of failed builds."""
    causes = st.sampled_from(FailureCause)
    return st.builds(
        FailureCount, project_id=st.none() | texts, cause=causes, level=scores, at_s=seconds
    )


def services() -> st.SearchStrategy[Service]:
    """Draw the service of a host."""
    return st.builds(
        Service,
        host=texts,
        service_id=uuids,
        disabled=st.booleans(),
        disabled_reason=st.none() | texts,
        forced_down=st.booleans(),
        last_seen_s=seconds,
        created_at_s=seconds,
        failed_builds=counts,
        failed_at_s=seconds,
        attestations=st.dictionaries(texts, attestations(), max_size=SIZE_MAX),
        build_failures=st.lists(failure_counts(), max_size=SIZE_MAX).map(tuple),
        failure_level=seconds,
    )


def providers() -> st.SearchStrategy[Provider]:
    """Draw a provider without usage."""
    return st.builds(
        Provider,
        uuid=uuids,
        name=texts,
        parent_uuid=st.none() | uuids,
        generation=counts,
        inventories=st.dictionaries(names, inventories(), max_size=SIZE_MAX),
        # The ledger derives usage from allocations, so a saved provider cannot bring its own.
        used=st.just({}),
        traits=st.frozensets(names, max_size=SIZE_MAX),
        aggregates=st.lists(uuids, unique=True, max_size=SIZE_MAX).map(tuple),
        owned_traits=st.none() | st.frozensets(names, max_size=SIZE_MAX),
        owned_classes=st.none() | st.frozensets(names, max_size=SIZE_MAX),
        owned_parent_uuid=st.none() | uuids,
        created_at_s=seconds,
        updated_at_s=seconds,
    )


def aggregates() -> st.SearchStrategy[Aggregate]:
    """Draw an aggregate."""
    return st.builds(
        Aggregate,
        aggregate_id=st.integers(1, 2**31),
        uuid=uuids,
        name=texts,
        hosts=st.frozensets(texts, max_size=SIZE_MAX),
        metadata=text_maps,
        created_at_s=seconds,
        updated_at_s=st.none() | seconds,
    )


def server_groups() -> st.SearchStrategy[ServerGroup]:
    """Draw a server group."""
    return st.builds(
        ServerGroup,
        uuid=uuids,
        name=texts,
        policy=st.sampled_from(GroupPolicy),
        project_id=texts,
        user_id=texts,
        max_server_per_host=st.integers(1, 100),
    )


def actions() -> st.SearchStrategy[Action]:
    """Draw an instance action: the record of an API request for an instance."""
    events = st.builds(
        ActionEvent, name=texts, host=texts, started_at_s=seconds, ended_at_s=seconds, error=texts
    )
    return st.builds(
        Action,
        instance_uuid=uuids,
        request_id=texts,
        name=texts,
        project_id=texts,
        user_id=texts,
        started_at_s=seconds,
        ended_at_s=st.none() | seconds,
        message=texts,
        events=st.lists(events, max_size=SIZE_MAX).map(tuple),
    )


def migrations() -> st.SearchStrategy[Migration]:
    """Draw a move of an instance, at any stage."""
    places = st.builds(
        Place, host=texts, node=texts, flavor=flavors(), assignment=st.none() | assignments()
    )
    return st.builds(
        Migration,
        uuid=uuids,
        number=st.integers(1, 2**31),
        instance_uuid=uuids,
        kind=st.sampled_from(MoveKind),
        stage=st.sampled_from(Stage),
        source=places,
        destination=places,
        was=st.sampled_from(Status),
        request_id=texts,
        project_id=texts,
        user_id=texts,
        address=texts,
        cancelled=st.booleans(),
        retried=pairs,
        fault=st.none() | faults(),
        group_uuid=st.none() | uuids,
        created_at_s=seconds,
        updated_at_s=seconds,
    )


def instances() -> st.SearchStrategy[Instance]:
    """Draw an instance that has not been saved yet."""
    return st.builds(
        Instance,
        uuid=uuids,
        name=texts,
        project_id=texts,
        user_id=texts,
        request_id=texts,
        reservation_id=texts,
        flavor=flavors(),
        image=st.none() | images(),
        launch_index=counts,
        status=st.sampled_from(Status),
        task=st.none() | st.sampled_from(Task),
        host=st.none() | texts,
        node=st.none() | texts,
        assignment=st.none() | assignments(),
        requested_zone=st.none() | texts,
        forced=st.booleans(),
        retried=pairs,
        group_uuid=st.none() | uuids,
        hints=hint_maps,
        metadata=text_maps,
        extra=json_maps,
        fault=st.none() | faults(),
        action=st.none() | actions(),
        migration_uuid=st.none() | uuids,
        counts_as=st.none() | st.tuples(counts, counts),
        created_at_s=seconds,
        updated_at_s=seconds,
        launched_at_s=st.none() | seconds,
        terminated_at_s=st.none() | seconds,
        # The ledger assigns revisions from 1 on; 0 marks an instance that it has not stored.
        revision=st.just(0),
    )


def requests() -> st.SearchStrategy[Request]:
    """Draw a request."""
    return st.builds(
        Request,
        request_id=uuids,
        instance_uuids=st.lists(uuids, min_size=1, max_size=SIZE_MAX, unique=True).map(tuple),
        flavor=flavors(),
        project_id=texts,
        user_id=texts,
        image=st.none() | images(),
        availability_zone=st.none() | texts,
        hints=hint_maps,
        group_uuid=st.none() | uuids,
        destination=st.none() | st.builds(Destination, host=texts, node=st.none() | texts),
        ignore_hosts=text_tuples,
        force_hosts=text_tuples,
        force_nodes=text_tuples,
        retried=pairs,
        source_cell=texts,
    )


def pending_requests() -> st.SearchStrategy[PendingRequest]:
    """Draw a request that is waiting to be scheduled."""
    return st.builds(
        PendingRequest,
        request=requests(),
        accepted_at_s=seconds,
        taken_by=texts,
        taken_until_s=seconds,
        is_given_up=st.booleans(),
    )


_filter_counts: Final = st.lists(
    st.builds(FilterCount, name=texts, before=counts, after=counts, removed_examples=text_tuples),
    max_size=SIZE_MAX,
).map(tuple)
_score_parts: Final = st.builds(
    ScorePart, weigher=texts, raw=scores, normalised=scores, multiplier=scores
)
_scored_hosts: Final = st.builds(
    ScoredHost.of,
    host=texts,
    node=texts,
    score=scores,
    parts=st.lists(_score_parts, max_size=2).map(tuple),
)


def placements() -> st.SearchStrategy[Placement]:
    """Draw the placement of an instance."""
    return st.builds(
        Placement,
        instance_uuid=uuids,
        host=texts,
        node=texts,
        provider_uuid=uuids,
        candidates=counts,
        chosen=_scored_hosts,
        runners_up=st.lists(_scored_hosts, max_size=2).map(tuple),
        assignment=st.none() | assignments(),
    )


def refusals() -> st.SearchStrategy[Refusal]:
    """Draw a refusal."""
    relaxations = st.builds(
        Relaxation,
        filter=texts,
        subject=texts,
        text=texts,
        hosts=counts,
        change=st.none() | st.integers(-AMOUNT_MAX, AMOUNT_MAX),
        examples=text_tuples,
    )
    return st.builds(
        Refusal,
        code=st.sampled_from(RefusalCode),
        message=texts,
        placed=counts,
        asked=counts,
        hosts_total=counts,
        filters=_filter_counts,
        relaxations=st.lists(relaxations, max_size=2).map(tuple),
    )


def decisions() -> st.SearchStrategy[Decision]:
    """Draw a decision."""
    return st.builds(
        Decision,
        request_id=uuids,
        verdict=st.sampled_from(Verdict),
        policy_name=texts,
        policy_hash=texts,
        driver=texts,
        seed=st.integers(0, 2**64 - 1),
        table_version=counts,
        decided_at_s=seconds,
        duration_us=counts,
        project_id=texts,
        amounts=amounts_by_class(),
        filters=_filter_counts,
        placements=st.lists(placements(), max_size=2).map(tuple),
        refusal=st.none() | refusals(),
        attempts=st.integers(1, 10),
    )


def allocations() -> st.SearchStrategy[Allocation]:
    """Draw an allocation."""
    return st.builds(
        Allocation, consumer_uuid=uuids, provider_uuid=uuids, amounts=amounts_by_class()
    )


def claims() -> st.SearchStrategy[Claim]:
    """Draw a claim."""
    some = st.lists(allocations(), min_size=1, max_size=SIZE_MAX).map(tuple)
    return st.builds(Claim, key=texts, allocations=some)


def quotas() -> st.SearchStrategy[Quota]:
    """Draw a quota that limits some resources and leaves others at their defaults."""
    limits = st.none() | st.integers(min_value=-1, max_value=100)
    return st.builds(Quota, project_id=texts, **dict.fromkeys(LIMITED, limits))


def records() -> st.SearchStrategy[Record]:
    """Draw a record that has not been saved yet, of any kind that has a strategy."""
    return st.one_of(
        hosts(),
        services(),
        providers(),
        aggregates(),
        server_groups(),
        flavors(),
        instances(),
        pending_requests(),
        decisions(),
        migrations(),
        actions(),
        quotas(),
        zones(),
        remote_instances(),
    )
