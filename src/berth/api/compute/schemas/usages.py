"""Query parameters and response bodies for the usage of projects over time."""

from berth.api.codec import UNSET, Model, UnsetType, View
from berth.api.links import Link
from berth.api.values import Limit


class UsageQuery(Model):
    """The period, and from 2.40 on the page of servers; an empty time is the present."""

    start: str | None = None
    end: str | None = None
    detailed: str | None = None
    limit: Limit | None = None
    marker: str | None = None


class ServerUsage(View):
    """The usage of one server; `hours` is the part of the period after its launch."""

    instance_id: str
    name: str
    hours: float
    flavor: str
    tenant_id: str
    memory_mb: int
    local_gb: int
    vcpus: int
    started_at: str
    ended_at: str | None
    state: str
    uptime: int


class ProjectUsage(View):
    """The usage of one project: sums over its servers, each amount multiplied by hours.

    The usage of a project without servers has no fields.
    """

    tenant_id: str | UnsetType = UNSET
    start: str | UnsetType = UNSET
    stop: str | UnsetType = UNSET
    total_hours: float | UnsetType = UNSET
    total_local_gb_usage: float | UnsetType = UNSET
    total_memory_mb_usage: float | UnsetType = UNSET
    total_vcpus_usage: float | UnsetType = UNSET
    server_usages: list[ServerUsage] | UnsetType = UNSET


class ProjectUsagesAnswer(View, rename={"links": "tenant_usages_links"}):
    """The response with the usage of all projects."""

    tenant_usages: list[ProjectUsage]
    links: tuple[Link, ...] | UnsetType = UNSET


class ProjectUsageAnswer(View, rename={"links": "tenant_usage_links"}):
    """The response with the usage of one project."""

    tenant_usage: ProjectUsage
    links: tuple[Link, ...] | UnsetType = UNSET


class HostAudit(View):
    """Nova's usage audit of one host for a period; Berth makes no such audits and returns none."""

    state: str
    instances: int
    errors: int
    message: str


class AuditLog(View):
    """The state of the last monthly usage audit, which Berth does not make."""

    period_beginning: str
    period_ending: str
    num_hosts: int
    hosts_not_run: list[str]
    overall_status: str
    num_hosts_done: int = 0
    num_hosts_running: int = 0
    num_hosts_not_run: int = 0
    total_instances: int = 0
    total_errors: int = 0
    log: dict[str, HostAudit] = {}  # noqa: RUF012 - msgspec copies an empty default


class AuditLogsAnswer(View):
    """The response with the last audit."""

    instance_usage_audit_logs: AuditLog


class AuditLogAnswer(View):
    """The response with the last audit before a time."""

    instance_usage_audit_log: AuditLog
