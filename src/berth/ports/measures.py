"""All that Berth measures, in one table; the monitoring guide has a row for each."""

from typing import Final

from berth.ports.telemetry import Measure, MetricType

_FAST: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
_SLOW: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
_WORK: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


def _counter(name: str, text: str, *labels: str) -> Measure:
    return Measure(f"berth_{name}_total", MetricType.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Measure:
    return Measure(f"berth_{name}", MetricType.GAUGE, text, labels)


def _histogram(name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Measure:
    return Measure(f"berth_{name}", MetricType.HISTOGRAM, text, labels, bounds)


HTTP_REQUESTS: Final = _counter("http_requests", "Requests answered.", "method", "route", "status")
HTTP_SECONDS: Final = _histogram(
    "http_request_seconds", "Time from a request's head to the end of its answer.", _SLOW, "route"
)
DECISIONS: Final = _counter("decisions", "Orders decided, each once.", "operation", "verdict")
DECISION_SECONDS: Final = _histogram(
    "decision_seconds", "Time that the last plan of an order took.", _FAST, "operation"
)
REFUSALS: Final = _counter(
    "refusals", "Orders refused: why, and the filter that left no host.", "code", "filter"
)
CLAIMS: Final = _counter("claims", "Plans brought to the ledger.", "outcome")
RETRIES: Final = _counter("claim_retries", "Plans made anew because a claim was rejected.")
COMMIT_SECONDS: Final = _histogram(
    "ledger_commit_seconds", "Time in which the ledger commits a batch.", _SLOW
)
COMMIT_UNITS: Final = _histogram("ledger_commit_units", "Units in a batch.", _SIZES)
TASKS: Final = _counter("agent_tasks", "Tasks that agents have done.", "task", "outcome")
TASK_SECONDS: Final = _histogram(
    "agent_task_seconds", "Time that a task took on its host.", _WORK, "task"
)
INSTANCE_MESSAGES: Final = _counter(
    "instance_messages", "What agents told of their instances, by what came of it.", "outcome"
)
INSTANCE_RELOADS: Final = _counter(
    "instance_reloads", "Lists of instances that were in doubt and read anew.", "outcome"
)
FAILED_BUILDS: Final = _counter("failed_builds", "Builds that failed on hosts.", "cause")
HEARTBEATS: Final = _counter("heartbeats", "Heartbeats of hosts, as sent.", "outcome")
AUDIT_LOOKS: Final = _counter(
    "host_audit_looks", "Looks of agents at what the ledger says of their hosts."
)
AGENT_FINDINGS: Final = _counter(
    "host_audit_findings",
    "What agents have found wrong on their hosts, each once, or have mended there.",
    "code",
    "outcome",
)

INFO: Final = _gauge("info", "Always 1; the version of Berth.", "version")
UPTIME: Final = _gauge("uptime_seconds", "Time since the process began to serve.")
FEED_LAG: Final = _gauge("feed_lag_versions", "Versions that the replica is behind the ledger.")
TABLE_AGE: Final = _gauge("table_age_seconds", "Time since the replica was true to the ledger.")
TABLE_VERSION: Final = _gauge("table_version", "The ledger's version that the replica is true to.")
LEDGER_UP: Final = _gauge("ledger_up", "1 when the ledger answers, else 0.")
BROKER_UP: Final = _gauge("broker_up", "1 when the process is connected to its broker, else 0.")
HOSTS: Final = _gauge("hosts", "Hosts by state of their service.", "state")
HEARTBEAT_AGE: Final = _gauge(
    "heartbeat_age_seconds", "Time since the oldest newest heartbeat of the hosts that are up."
)
INSTANCES: Final = _gauge("instances", "Instances by the state that clients see.", "state")
PENDING: Final = _gauge("pending_requests", "Requests accepted and not decided.")
PENDING_AGE: Final = _gauge("pending_age_seconds", "Time that the oldest pending request waits.")
UNREPORTED_HOSTS: Final = _gauge(
    "hosts_unreported", "Hosts whose agents do not tell of their instances."
)
DOUBTED_HOSTS: Final = _gauge("hosts_doubted", "Hosts whose list of instances is in doubt.")
CHILD_ZONES: Final = _gauge("child_zones", "Child zones by state.", "state")
ZONE_INSTANCES_UNWANTED: Final = _gauge(
    "zone_instances_unwanted",
    "Instances that child zones may have, that nobody wants, and that are not taken back yet.",
)
OFFERS_HELD: Final = _gauge("offers_held", "Offers whose room is held for parent zones.")
POLICY_OK: Final = _gauge("policy_ok", "1 when the policy as written is in force, else 0.")

COUNTED: Final = (
    HTTP_REQUESTS,
    HTTP_SECONDS,
    DECISIONS,
    DECISION_SECONDS,
    REFUSALS,
    CLAIMS,
    RETRIES,
    COMMIT_SECONDS,
    COMMIT_UNITS,
    TASKS,
    TASK_SECONDS,
    FAILED_BUILDS,
    INSTANCE_MESSAGES,
    INSTANCE_RELOADS,
    HEARTBEATS,
    AUDIT_LOOKS,
    AGENT_FINDINGS,
)
GAUGES: Final = (
    INFO,
    UPTIME,
    FEED_LAG,
    TABLE_AGE,
    TABLE_VERSION,
    LEDGER_UP,
    BROKER_UP,
    HOSTS,
    HEARTBEAT_AGE,
    INSTANCES,
    PENDING,
    PENDING_AGE,
    UNREPORTED_HOSTS,
    DOUBTED_HOSTS,
    CHILD_ZONES,
    ZONE_INSTANCES_UNWANTED,
    OFFERS_HELD,
    POLICY_OK,
)
