"""The operations of Berth's own API."""

from berth.api.assertions import AssertedIdentity
from berth.api.berth.handlers import (
    audit,
    audit_log,
    candidates,
    decisions,
    host_keys,
    hosts,
    maintenance,
    state,
    status,
    top,
)
from berth.api.berth.schemas.audit import AuditQuery
from berth.api.berth.schemas.audit_log import AuditEntryView, AuditLogAnswer, AuditLogQuery
from berth.api.berth.schemas.candidates import CandidatesQuery, ExplanationAnswer
from berth.api.berth.schemas.decisions import (
    CapacityAnswer,
    CapacityQuery,
    DecisionQuery,
    DecisionsAnswer,
    DecisionsQuery,
)
from berth.api.berth.schemas.host_keys import (
    EnrolBody,
    EnrolledAnswer,
    HostKeysAnswer,
    RedeemBody,
    TokenAnswer,
)
from berth.api.berth.schemas.hosts import (
    HostAnswer,
    HostsAnswer,
    HostsQuery,
    RatiosBody,
    WriteOffAnswer,
)
from berth.api.berth.schemas.instances import BoundZoneAnswer, BoundZoneBody
from berth.api.berth.schemas.maintenance import (
    DrainBody,
    DrainPlanAnswer,
    DrainQuery,
    MaintenanceAnswer,
    MaintenanceBody,
    MaintenancesAnswer,
)
from berth.api.berth.schemas.status import PolicyAnswer, ReloadAnswer, StatusAnswer
from berth.api.berth.schemas.top import TopAnswer, TopQuery
from berth.api.compute.schemas.servers import NewServerBody
from berth.api.routing import ApiOperation, Role
from berth.domain.compute.decision import Decision, TriedDecision
from berth.domain.compute.instance import Instance
from berth.domain.ledger.change import Snapshot
from berth.domain.ledger.discrepancy import AuditReport

PREFIX = "/berth/v1"

_ADMIN = Role.ADMIN

# Operations without a role are for all authenticated callers that have a project. Their handlers
# hide hosts and other projects from callers other than administrators.
OPERATIONS = (
    ApiOperation(
        "GET",
        "/berth/v1/decisions",
        decisions.list_decisions,
        query=DecisionsQuery,
        answers=DecisionsAnswer,
        stated=AssertedIdentity.MAY,
    ),
    # The ids of decisions on offers and on further attempts contain slashes.
    ApiOperation(
        "GET",
        "/berth/v1/decisions/{request_id:path}",
        decisions.show_decision,
        query=DecisionQuery,
        answers=Decision,
        stated=AssertedIdentity.MAY,
    ),
    ApiOperation(
        "POST",
        "/berth/v1/decide",
        decisions.try_decision,
        is_audited=False,
        body=NewServerBody,
        answers=TriedDecision,
    ),
    ApiOperation(
        "GET",
        "/berth/v1/capacity",
        decisions.show_capacity,
        query=CapacityQuery,
        answers=CapacityAnswer,
    ),
    ApiOperation(
        "GET",
        "/berth/v1/candidates/explain",
        candidates.explain_candidates,
        role=_ADMIN,
        query=CandidatesQuery,
        answers=ExplanationAnswer,
    ),
    ApiOperation(
        "GET",
        "/berth/v1/host-keys",
        host_keys.list_keys,
        role=_ADMIN,
        answers=HostKeysAnswer,
    ),
    ApiOperation(
        "POST",
        "/berth/v1/host-keys/{host}/token",
        host_keys.enroll,
        role=_ADMIN,
        body=EnrolBody,
        answers=TokenAnswer,
    ),
    # The token is the credential.
    ApiOperation(
        "PUT",
        "/berth/v1/host-keys/{host}",
        host_keys.redeem,
        role=Role.PUBLIC,
        body=RedeemBody,
        answers=EnrolledAnswer,
    ),
    ApiOperation(
        "POST",
        "/berth/v1/host-keys/{host}/rotate",
        host_keys.rotate,
        status=204,
        role=_ADMIN,
    ),
    ApiOperation(
        "DELETE",
        "/berth/v1/host-keys/{host}",
        host_keys.revoke,
        status=204,
        role=_ADMIN,
    ),
    ApiOperation(
        "GET",
        "/berth/v1/hosts",
        hosts.list_hosts,
        role=_ADMIN,
        query=HostsQuery,
        answers=HostsAnswer,
    ),
    ApiOperation("GET", "/berth/v1/hosts/{name}", hosts.show_host, role=_ADMIN, answers=HostAnswer),
    ApiOperation(
        "PUT",
        "/berth/v1/hosts/{name}/ratios",
        hosts.set_ratios,
        role=_ADMIN,
        body=RatiosBody,
        answers=HostAnswer,
    ),
    ApiOperation(
        "GET",
        "/berth/v1/hosts/{name}/write-off",
        hosts.plan_write_off,
        role=_ADMIN,
        answers=WriteOffAnswer,
    ),
    ApiOperation(
        "POST",
        "/berth/v1/hosts/{name}/write-off",
        hosts.write_off,
        role=_ADMIN,
        answers=WriteOffAnswer,
    ),
    ApiOperation(
        "GET",
        "/berth/v1/maintenances",
        maintenance.list_maintenances,
        role=_ADMIN,
        answers=MaintenancesAnswer,
    ),
    ApiOperation(
        "GET",
        "/berth/v1/hosts/{name}/maintenance",
        maintenance.show_maintenance,
        role=_ADMIN,
        answers=MaintenanceAnswer,
    ),
    ApiOperation(
        "PUT",
        "/berth/v1/hosts/{name}/maintenance",
        maintenance.maintain,
        role=_ADMIN,
        body=MaintenanceBody,
        answers=MaintenanceAnswer,
    ),
    ApiOperation(
        "DELETE",
        "/berth/v1/hosts/{name}/maintenance",
        maintenance.resume,
        status=204,
        role=_ADMIN,
    ),
    ApiOperation(
        "GET",
        "/berth/v1/hosts/{name}/drain",
        maintenance.plan_drain,
        role=_ADMIN,
        query=DrainQuery,
        answers=DrainPlanAnswer,
    ),
    ApiOperation(
        "POST",
        "/berth/v1/hosts/{name}/drain",
        maintenance.drain,
        role=_ADMIN,
        body=DrainBody,
        status=202,
        answers=MaintenanceAnswer,
    ),
    ApiOperation(
        "DELETE",
        "/berth/v1/hosts/{name}/drain",
        maintenance.stop_drain,
        role=_ADMIN,
        answers=MaintenanceAnswer,
    ),
    ApiOperation(
        "GET", "/berth/v1/instances/{instance_uuid}", state.show_instance, answers=Instance
    ),
    ApiOperation(
        "GET",
        "/berth/v1/instances/{instance_uuid}/zone",
        state.show_zone,
        role=_ADMIN,
        answers=BoundZoneAnswer,
    ),
    ApiOperation(
        "PUT",
        "/berth/v1/instances/{instance_uuid}/zone",
        state.bind_zone,
        role=_ADMIN,
        body=BoundZoneBody,
        answers=BoundZoneAnswer,
    ),
    ApiOperation("GET", "/berth/v1/state", state.show_state, role=_ADMIN, answers=Snapshot),
    ApiOperation(
        "GET",
        "/berth/v1/audit",
        audit.show_audit,
        role=_ADMIN,
        query=AuditQuery,
        answers=AuditReport,
    ),
    ApiOperation(
        "POST",
        "/berth/v1/audit",
        audit.audit_and_mend,
        role=_ADMIN,
        query=AuditQuery,
        answers=AuditReport,
    ),
    ApiOperation(
        "GET",
        "/berth/v1/audit-log",
        audit_log.list_entries,
        role=_ADMIN,
        query=AuditLogQuery,
        answers=AuditLogAnswer,
    ),
    ApiOperation(
        "GET",
        "/berth/v1/audit-log/{number}",
        audit_log.show_entry,
        role=_ADMIN,
        answers=AuditEntryView,
    ),
    ApiOperation("GET", "/berth/v1/policy", status.show_policy, role=_ADMIN, answers=PolicyAnswer),
    ApiOperation(
        "POST", "/berth/v1/policy/reload", status.reload_policy, role=_ADMIN, answers=ReloadAnswer
    ),
    ApiOperation(
        "GET",
        "/berth/v1/top",
        top.show_top,
        role=_ADMIN,
        query=TopQuery,
        answers=TopAnswer,
    ),
    ApiOperation("GET", "/berth/v1/status", status.show_status, role=_ADMIN, answers=StatusAnswer),
)
