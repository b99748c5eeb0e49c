"""Limits and quotas: Berth has none, and says what is used."""

from typing import NamedTuple

from berth.api.compute.schemas.limits import (
    AbsoluteLimits,
    LimitsAnswer,
    LimitsQuery,
    LimitsView,
    QuotaAnswer,
    QuotaClassAnswer,
    QuotaUsage,
    QuotaUsagesAnswer,
    QuotaUsagesView,
    QuotaView,
)
from berth.api.errors import HttpError
from berth.api.routing import Answer, Call
from berth.domain.resources import MEMORY_MB, VCPU

_NONE = -1
_METADATA_MAX = 128


class Used(NamedTuple):
    """What a project has; servers count that hold room."""

    servers: int
    vcpus: int
    memory_mb: int
    server_groups: int


async def show_limits(call: Call) -> Answer:
    """Show what a project may have and has."""
    project = call.query(LimitsQuery).tenant_id or call.identity.project_id
    _check_project(call, project)
    used = await _used(call, project)
    absolute = AbsoluteLimits(
        server_metadata_max=_METADATA_MAX,
        server_groups_max=_NONE,
        group_members_max=_NONE,
        cores_max=_NONE,
        instances_max=_NONE,
        keypairs_max=0,
        ram_max=_NONE,
        cores_used=used.vcpus,
        instances_used=used.servers,
        ram_used=used.memory_mb,
        server_groups_used=used.server_groups,
    )
    return Answer(LimitsAnswer(limits=LimitsView(rate=[], absolute=absolute)))


async def show_quotas(call: Call) -> Answer:
    """Show the quotas of a project, which are none."""
    _check_project(call, call.key("project_id"))
    return Answer(QuotaAnswer(quota_set=_quotas(call.key("project_id"))))


async def show_default_quotas(call: Call) -> Answer:
    """Show the quotas that a project has by itself, which are none."""
    return Answer(QuotaAnswer(quota_set=_quotas(call.key("project_id"))))


async def show_class_quotas(call: Call) -> Answer:
    """Show the quotas of a class, which are none."""
    return Answer(QuotaClassAnswer(quota_class_set=_quotas(call.key("class_id"))))


async def show_quota_usages(call: Call) -> Answer:
    """Show the quotas of a project, which are none, and what it has."""
    project = call.key("project_id")
    _check_project(call, project)
    used = await _used(call, project)
    view = QuotaUsagesView(
        id=project,
        instances=QuotaUsage(limit=_NONE, in_use=used.servers),
        cores=QuotaUsage(limit=_NONE, in_use=used.vcpus),
        ram=QuotaUsage(limit=_NONE, in_use=used.memory_mb),
        key_pairs=QuotaUsage(limit=0, in_use=0),
        metadata_items=QuotaUsage(limit=_METADATA_MAX, in_use=0),
        server_groups=QuotaUsage(limit=_NONE, in_use=used.server_groups),
        server_group_members=QuotaUsage(limit=_NONE, in_use=0),
    )
    return Answer(QuotaUsagesAnswer(quota_set=view))


async def refuse_quotas(call: Call) -> Answer:  # noqa: ARG001 - every handler takes a call
    """Refuse to limit a project."""
    raise HttpError(403, "Berth has no quotas: what a project may have is not limited.")


def _check_project(call: Call, project: str) -> None:
    if project != call.identity.project_id and not call.identity.is_admin:
        raise HttpError(403, "Only administrators may look at other projects.")


async def _used(call: Call, project: str) -> Used:
    parts = call.parts
    holdings = await parts.ledger.project_holdings(project, None)
    sums = {VCPU: 0, MEMORY_MB: 0}
    for holding in holdings:
        for amounts in holding.allocations.values():
            for name in sums:
                sums[name] += amounts.get(name, 0)
    groups = await parts.server_groups.of_project(project)
    return Used(len(holdings), sums[VCPU], sums[MEMORY_MB], len(groups))


def _quotas(key: str) -> QuotaView:
    return QuotaView(
        id=key,
        instances=_NONE,
        cores=_NONE,
        ram=_NONE,
        key_pairs=0,
        metadata_items=_METADATA_MAX,
        server_groups=_NONE,
        server_group_members=_NONE,
    )
