"""Hypothesis strategies, one a noun: any valid one, the odd ones too.

They draw from the whole range that a noun allows; `berth.testing.fleet_strategies` draws fleets
that look like fleets.
"""

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st

from berth.domain.aggregate import Aggregate
from berth.domain.allocation import Allocation, Claim
from berth.domain.assignment import Assignment
from berth.domain.attestation import Attestation
from berth.domain.cpu_sets import CPU_MAX
from berth.domain.decision import (
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
from berth.domain.flavor import Flavor
from berth.domain.hardware_share import CellShare, DeviceShare
from berth.domain.host import Host, Service
from berth.domain.image import Image
from berth.domain.instance import Fault, Instance, Status, Task
from berth.domain.provider import Provider
from berth.domain.record import PendingRequest, Record
from berth.domain.request import Destination, Request
from berth.domain.resources import AMOUNT_MAX, RATIO_MAX, Inventory
from berth.domain.server_group import GroupPolicy, ServerGroup
from berth.testing.hardware_fleets import generators, random_cells, random_pools

_SIZE_MAX: Final = 3
"""Most entries of a drawn collection: laws that break do so with few."""

texts: Final = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
"""Any text that a database takes."""

uuids: Final = st.uuids(version=4).map(str)
seconds: Final = st.floats(min_value=0.0, max_value=4e9, allow_nan=False)
scores: Final = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)
amounts: Final = st.integers(0, AMOUNT_MAX)
positive_amounts: Final = st.integers(1, AMOUNT_MAX)
counts: Final = st.integers(0, 100_000)
names: Final = st.from_regex(r"[A-Z][A-Z0-9_]{0,11}", fullmatch=True)
"""Resource class and trait names."""

_text_maps: Final = st.dictionaries(texts, texts, max_size=_SIZE_MAX)
_json: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-AMOUNT_MAX, AMOUNT_MAX) | scores | texts,
    lambda inner: st.lists(inner, max_size=_SIZE_MAX) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
_json_maps: Final = st.dictionaries(texts, _json, max_size=_SIZE_MAX)
_text_tuples: Final = st.lists(texts, max_size=_SIZE_MAX).map(tuple)
_hints: Final = st.dictionaries(texts, _text_tuples, max_size=_SIZE_MAX)
_pairs: Final = st.lists(st.tuples(texts, texts), max_size=_SIZE_MAX).map(tuple)


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Draw an inventory of any size."""
    total = draw(amounts)
    return Inventory(
        total=total,
        reserved=draw(st.integers(0, total)),
        min_unit=draw(positive_amounts),
        max_unit=draw(amounts),
        step_size=draw(positive_amounts),
        allocation_ratio=draw(st.floats(0.0, RATIO_MAX, exclude_min=True, allow_subnormal=False)),
    )


def amounts_by_class(
    values: st.SearchStrategy[int] = positive_amounts,
) -> st.SearchStrategy[Mapping[str, int]]:
    """Draw amounts of some classes."""
    return st.dictionaries(names, values, max_size=_SIZE_MAX)


def flavors() -> st.SearchStrategy[Flavor]:
    """Draw a flavor."""
    return st.builds(
        Flavor,
        flavor_id=uuids,
        name=texts,
        vcpus=amounts,
        memory_mb=amounts,
        root_gb=amounts,
        ephemeral_gb=amounts,
        swap_mb=amounts,
        extra_specs=_text_maps,
        is_public=st.booleans(),
        disabled=st.booleans(),
        rxtx_factor=scores,
        description=st.none() | texts,
    )


def images() -> st.SearchStrategy[Image]:
    """Draw an image."""
    return st.builds(
        Image,
        image_id=uuids,
        name=texts,
        properties=_text_maps,
        min_memory_mb=amounts,
        min_disk_gb=amounts,
    )


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
        cpu_info=_json_maps,
        supported_instances=st.lists(st.tuples(texts, texts, texts), max_size=2).map(tuple),
        stats=_text_maps,
        cell=texts,
        metrics=st.dictionaries(texts, scores, max_size=_SIZE_MAX),
        numa_cells=generators().map(random_cells),
        pci_pools=generators().map(lambda rng: random_pools(rng, random_cells(rng))),
    )


def assignments() -> st.SearchStrategy[Assignment]:
    """Draw what an instance has of its host."""
    cpus = st.integers(0, CPU_MAX)
    shares = st.builds(
        CellShare,
        host_cell=counts,
        memory_mb=amounts,
        page_size_kb=st.none() | positive_amounts,
        shared_cpus=counts,
        pinned=st.lists(st.tuples(cpus, cpus), max_size=_SIZE_MAX).map(tuple),
        emulator_cpus=st.frozensets(cpus, max_size=1),
        idle_cpus=st.frozensets(cpus, max_size=_SIZE_MAX),
    )
    devices = st.builds(DeviceShare, pool=texts, count=counts, alias=texts)
    return st.builds(
        Assignment,
        allocations=st.dictionaries(uuids, amounts_by_class(), max_size=_SIZE_MAX),
        mappings=st.dictionaries(texts, st.lists(uuids, max_size=2).map(tuple), max_size=2),
        root=st.none() | amounts_by_class(),
        numa=st.lists(shares, max_size=2).map(tuple),
        devices=st.lists(devices, max_size=2).map(tuple),
    )


def attestations() -> st.SearchStrategy[Attestation]:
    """Draw an attestation of a machine."""
    return st.builds(Attestation, level=texts, valid_until_s=seconds)


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
        attestations=st.dictionaries(texts, attestations(), max_size=_SIZE_MAX),
    )


def providers() -> st.SearchStrategy[Provider]:
    """Draw a provider that nothing is used of."""
    return st.builds(
        Provider,
        uuid=uuids,
        name=texts,
        parent_uuid=st.none() | uuids,
        generation=counts,
        inventories=st.dictionaries(names, inventories(), max_size=_SIZE_MAX),
        used=st.just({}),
        traits=st.frozensets(names, max_size=_SIZE_MAX),
    )


def aggregates() -> st.SearchStrategy[Aggregate]:
    """Draw an aggregate."""
    return st.builds(
        Aggregate,
        aggregate_id=st.integers(1, 2**31),
        uuid=uuids,
        name=texts,
        hosts=st.frozensets(texts, max_size=_SIZE_MAX),
        metadata=_text_maps,
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


def faults() -> st.SearchStrategy[Fault]:
    """Draw a fault."""
    return st.builds(Fault, code=counts, message=texts, created_at_s=seconds, details=texts)


def instances() -> st.SearchStrategy[Instance]:
    """Draw an instance that was never saved."""
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
        retried=_pairs,
        group_uuid=st.none() | uuids,
        hints=_hints,
        metadata=_text_maps,
        extra=_json_maps,
        fault=st.none() | faults(),
        created_at_s=seconds,
        updated_at_s=seconds,
        launched_at_s=st.none() | seconds,
        terminated_at_s=st.none() | seconds,
        revision=st.just(0),
    )


def requests() -> st.SearchStrategy[Request]:
    """Draw a request."""
    return st.builds(
        Request,
        request_id=uuids,
        instance_uuids=st.lists(uuids, min_size=1, max_size=_SIZE_MAX, unique=True).map(tuple),
        flavor=flavors(),
        project_id=texts,
        user_id=texts,
        image=st.none() | images(),
        availability_zone=st.none() | texts,
        hints=_hints,
        group_uuid=st.none() | uuids,
        destination=st.none() | st.builds(Destination, host=texts, node=st.none() | texts),
        ignore_hosts=_text_tuples,
        force_hosts=_text_tuples,
        force_nodes=_text_tuples,
        retried=_pairs,
        source_cell=texts,
    )


def pending_requests() -> st.SearchStrategy[PendingRequest]:
    """Draw a request that waits to be scheduled."""
    return st.builds(PendingRequest, request=requests(), accepted_at_s=seconds)


_filter_counts: Final = st.lists(
    st.builds(FilterCount, name=texts, before=counts, after=counts, removed_examples=_text_tuples),
    max_size=_SIZE_MAX,
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
        examples=_text_tuples,
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
    some = st.lists(allocations(), min_size=1, max_size=_SIZE_MAX).map(tuple)
    return st.builds(Claim, key=texts, allocations=some)


def records() -> st.SearchStrategy[Record]:
    """Draw a record of any kind, never saved before."""
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
    )
