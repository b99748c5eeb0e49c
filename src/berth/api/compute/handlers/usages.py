"""Handlers for the usage of projects over time, which follows from the records of servers."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple

from berth.api.codec import UNSET, UnsetType
from berth.api.compute.handlers.quotas import check_project
from berth.api.compute.schemas.usages import (
    AuditLog,
    AuditLogAnswer,
    AuditLogsAnswer,
    ProjectUsage,
    ProjectUsageAnswer,
    ProjectUsagesAnswer,
    ServerUsage,
    UsageQuery,
)
from berth.api.links import Link, limit_of, next_page
from berth.api.microversion import Version
from berth.api.routing import Answer, Call
from berth.api.values import naive_time
from berth.domain.compute.instance import Instance
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.ports.ledger import InstanceQuery
from berth.services.replica.ledger_pages import every_instance
from berth.services.requests.permissions import vm_state

_PAGES: Final[Version] = (2, 40)
_TIMES: Final = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")
_AUDIT_TIMES: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f")
_HOUR_S: Final = 3600.0


class _Period(NamedTuple):
    """A period in Unix seconds; `stop_s` is at most `now_s`."""

    start_s: float
    stop_s: float
    now_s: float

    def hours(self, instance: Instance) -> float:
        """Return the hours of the period in which an instance existed after its launch."""
        launched_s, ended_s = instance.launched_at_s, instance.terminated_at_s
        if launched_s is None:
            return 0.0
        stop_s = self.stop_s if ended_s is None else min(self.stop_s, ended_s)
        return max(0.0, stop_s - max(launched_s, self.start_s)) / _HOUR_S

    def has(self, instance: Instance) -> bool:
        """Return whether an instance was launched and not yet deleted at a time in the period."""
        launched_s, ended_s = instance.launched_at_s, instance.terminated_at_s
        if launched_s is None or launched_s >= self.stop_s:
            return False
        return ended_s is None or ended_s > self.start_s


async def list_usages(call: Call) -> Answer:
    """Show the usage of all projects in a period.

    Raises:
        InvalidInputError: a time is malformed, or the period ends before it starts.
    """
    query = call.query(UsageQuery)
    period = _period(call, query)
    found, links = await _page(call, query, period, None)
    projects = dict.fromkeys(one.project_id for one in found)
    usages = [
        _usage([one for one in found if one.project_id == project], period) for project in projects
    ]
    if query.detailed != "1":
        for usage in usages:
            usage.server_usages = UNSET
    return Answer(ProjectUsagesAnswer(tenant_usages=usages, links=links))


async def show_usage(call: Call) -> Answer:
    """Show the usage of one project in a period, with its servers.

    Raises:
        HttpError: 403 when the caller may not see the project's usage.
        InvalidInputError: a time is malformed, or the period ends before it starts.
    """
    project = call.key("project_id")
    check_project(call, project)
    query = call.query(UsageQuery)
    period = _period(call, query)
    found, links = await _page(call, query, period, project)
    usage = _usage(found, period) if found else ProjectUsage()
    return Answer(ProjectUsageAnswer(tenant_usage=usage, links=links))


async def show_audit_logs(call: Call) -> Answer:
    """Show the last monthly usage audit; all hosts count as not audited, as Berth has no audits.

    Raises:
        InvalidInputError: the time is too early.
    """
    return Answer(AuditLogsAnswer(instance_usage_audit_logs=await _audit(call, None)))


async def show_audit_log(call: Call) -> Answer:
    """Show the last monthly usage audit before a time; see `show_audit_logs`.

    Raises:
        InvalidInputError: the time is malformed or too early.
    """
    text = call.key("before")
    before = _parsed(text, _AUDIT_TIMES)
    if before is None:
        raise InvalidInputError("before", f"Invalid timestamp for date {text[:80]}")
    return Answer(AuditLogAnswer(instance_usage_audit_log=await _audit(call, before)))


def _period(call: Call, query: UsageQuery) -> _Period:
    """Return the period of a request.

    Raises:
        InvalidInputError: a time is malformed, or the period ends before it starts.
    """
    now_s = call.parts.clock.now_s()
    start_s, stop_s = _moment(query.start, "start", now_s), _moment(query.end, "end", now_s)
    # As in Nova, a request without times is about the present, and charges no hours.
    is_present = not query.start and not query.end
    if not start_s < stop_s and not is_present:
        raise InvalidInputError("start", "must be before the end of the period; give both")
    return _Period(start_s, min(stop_s, now_s), now_s)


def _moment(text: str | None, field: str, now_s: float) -> float:
    if not text:
        return now_s
    found = _parsed(text, _TIMES)
    if found is None:
        reason = f"{text[:80]!r} is not a time in UTC, such as 2026-01-31T12:00:00"
        raise InvalidInputError(field, reason)
    return found


def _parsed(text: str, formats: tuple[str, ...]) -> float | None:
    for form in formats:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None


async def _page(
    call: Call, query: UsageQuery, period: _Period, project: str | None
) -> tuple[list[Instance], tuple[Link, ...] | UnsetType]:
    """Return the servers of a page, newest first, and the link to the next page.

    Before 2.40 there is only one page, as in Nova.
    """
    has_pages = call.version >= _PAGES
    limit = limit_of(call, query.limit if has_pages else None)
    marker = query.marker if has_pages else None
    found: list[Instance] = []
    if limit:
        async for instance in _instances(call, project, marker):
            if period.has(instance):
                found.append(instance)
            if len(found) > limit:
                break
    if len(found) <= limit:
        return found, UNSET
    found = list(islice(found, limit))
    return found, next_page(call, found[-1].uuid, limit) if has_pages else UNSET


async def _instances(
    call: Call, project: str | None, marker: str | None
) -> AsyncIterator[Instance]:
    query = InstanceQuery(project_id=project, deleted=None, marker=marker)
    try:
        async for instance in every_instance(call.parts.ledger, query):
            yield instance
    except NotFoundError as error:
        raise InvalidInputError("marker", "is not the id of a server") from error


def _usage(found: list[Instance], period: _Period) -> ProjectUsage:
    servers = [_server(instance, period) for instance in found]
    return ProjectUsage(
        tenant_id=found[0].project_id,
        start=naive_time(period.start_s),
        stop=naive_time(period.stop_s),
        total_hours=sum(one.hours for one in servers),
        total_local_gb_usage=sum(one.local_gb * one.hours for one in servers),
        total_memory_mb_usage=sum(one.memory_mb * one.hours for one in servers),
        total_vcpus_usage=sum(one.vcpus * one.hours for one in servers),
        server_usages=servers,
    )


def _server(instance: Instance, period: _Period) -> ServerUsage:
    flavor, ended_s = instance.flavor, instance.terminated_at_s
    launched_s = instance.launched_at_s or period.now_s
    return ServerUsage(
        instance_id=instance.uuid,
        name=instance.name,
        hours=period.hours(instance),
        flavor=flavor.name,
        tenant_id=instance.project_id,
        memory_mb=flavor.memory_mb,
        local_gb=flavor.root_gb + flavor.ephemeral_gb,
        vcpus=flavor.vcpus,
        started_at=naive_time(launched_s),
        ended_at=None if ended_s is None else naive_time(ended_s),
        state=vm_state(instance.status) if ended_s is None else "terminated",
        # Clocks may be set, and a schema of Nova excludes negative times.
        uptime=max(0, int((period.now_s if ended_s is None else ended_s) - launched_s)),
    )


async def _audit(call: Call, before_s: float | None) -> AuditLog:
    """Return the audit of the last whole month before a time, or before now."""
    at_s = call.parts.clock.now_s() if before_s is None else before_s
    try:
        end = datetime.fromtimestamp(at_s, UTC).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0, tzinfo=None
        )
        is_january = end.month == 1
        begin = end.replace(year=end.year - is_january, month=12 if is_january else end.month - 1)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError("before", "is too early; use a later time") from error
    hosts = sorted({service.host for service in await call.parts.hosts.services()})
    done = f"0 of {len(hosts)}" if hosts else "ALL"
    return AuditLog(
        period_beginning=str(begin),
        period_ending=str(end),
        num_hosts=len(hosts),
        num_hosts_not_run=len(hosts),
        hosts_not_run=hosts,
        overall_status=f"{done} hosts done. 0 errors.",
    )
