"""All metrics of Berth. `docs/guides/monitoring.md` has a row for each."""

from typing import Final

from berth.ports.telemetry import Measure, MetricType

# Bucket bounds in seconds, chosen for planning, which usually takes less than 1 ms.
_FAST: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
# Bucket bounds in seconds for operations that include I/O.
_SLOW: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Bucket bounds for the number of units in a batch.
_SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
# Bucket bounds in seconds for work on hosts: a live migration may take half an hour.
_WORK: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)

_BY_CLASS: Final = ("resource_class", "availability_zone")


def _counter(name: str, text: str, *labels: str) -> Measure:
    return Measure(f"berth_{name}_total", MetricType.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Measure:
    return Measure(f"berth_{name}", MetricType.GAUGE, text, labels)


def _histogram(name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Measure:
    return Measure(f"berth_{name}", MetricType.HISTOGRAM, text, labels, bounds)


HTTP_REQUESTS: Final = _counter(
    "http_requests", "HTTP requests answered.", "method", "route", "status"
)
HTTP_SECONDS: Final = _histogram(
    "http_request_seconds",
    "Time from a request's headers to the end of its response.",
    _SLOW,
    "route",
)
HTTP_CONNECTIONS_CLOSED: Final = _counter(
    "http_connections_closed",
    "Connections closed at the limit: idle ones, and new ones when none was idle (refused).",
    "outcome",
)
DECISIONS: Final = _counter(
    "decisions", "Requests decided, each counted once.", "operation", "verdict"
)
DECISION_SECONDS: Final = _histogram(
    "decision_seconds", "Time to compute the recorded plan of a request.", _FAST, "operation"
)
REFUSALS: Final = _counter(
    "refusals", "Requests refused, by reason and by the filter that left no host.", "code", "filter"
)
RULE_FAILURES: Final = _counter(
    "rule_failures", "Errors of filters that cost a refusal some of its hints.", "filter"
)
CLAIMS: Final = _counter("claims", "Plans submitted to the ledger.", "outcome")
RETRIES: Final = _counter("claim_retries", "Plans repeated because a claim was rejected.")
COMMIT_SECONDS: Final = _histogram(
    "ledger_commit_seconds", "Time that the ledger takes to commit a batch of units.", _SLOW
)
COMMIT_UNITS: Final = _histogram("ledger_commit_units", "Units in a batch.", _SIZES)
TASKS: Final = _counter(
    "agent_tasks", "Tasks and stages of moves that agents have attempted.", "task", "outcome"
)
TASK_SECONDS: Final = _histogram(
    "agent_task_seconds", "Duration of a task on its host.", _WORK, "task"
)
INSTANCE_MESSAGES: Final = _counter(
    "instance_messages", "Messages from agents about their instances, by outcome.", "outcome"
)
INSTANCE_RELOADS: Final = _counter(
    "instance_reloads", "Instance lists in doubt that were reloaded from the ledger.", "outcome"
)
FAILED_BUILDS: Final = _counter("failed_builds", "Builds that failed on hosts.", "cause")
HEARTBEATS: Final = _counter(
    "heartbeats", "Heartbeats of hosts, by whether they were saved.", "outcome"
)
HOST_AUDITS: Final = _counter(
    "host_audits", "Audits of the ledger's records of single hosts, made for their agents."
)
AGENT_FINDINGS: Final = _counter(
    "host_audit_findings",
    "Problems found on hosts or in the ledger's records of them, each counted once, and repairs.",
    "code",
    "outcome",
)

BUS_REFUSALS: Final = _counter(
    "bus_refusals",
    "Messages on the broker that did not prove that they come from the control plane.",
    "reason",
)
TOKENS: Final = _counter(
    "tokens", "Requests with a token of Keystone, by the result of its check.", "outcome"
)

INFO: Final = _gauge("info", "Always 1; the label is the version of Berth.", "version")
UPTIME: Final = _gauge("uptime_seconds", "Time since the process started serving.")
FEED_LAG: Final = _gauge("feed_lag_versions", "Versions by which the replica is behind the ledger.")
TABLE_AGE: Final = _gauge("table_age_seconds", "Time since the replica was last up to date.")
TABLE_VERSION: Final = _gauge("table_version", "Ledger version that the replica matches.")
LEDGER_UP: Final = _gauge("ledger_up", "1 when the ledger answers, else 0.")
GATEWAY_SESSIONS: Final = _gauge(
    "gateway_sessions", "Hosts with a session, in this agent process or at this gateway."
)
BROKER_UP: Final = _gauge("broker_up", "1 when the process is connected to its broker, else 0.")
KEYSTONE_UP: Final = _gauge("keystone_up", "1 when Keystone validates tokens, else 0.")
HOSTS: Final = _gauge("hosts", "Hosts by state of their service.", "state")
HOSTS_UNCERTAIN: Final = _gauge(
    "hosts_uncertain", "1 when too many hosts fell silent at once to count as down, else 0."
)
HEARTBEAT_AGE: Final = _gauge(
    "heartbeat_age_seconds", "Longest time since the last heartbeat among the hosts that are up."
)
INSTANCES: Final = _gauge("instances", "Instances by the status that clients see.", "state")
SCHEDULERS: Final = _gauge(
    "schedulers", "Schedulers that are alive: each shares a report through the ledger every 5 s."
)
PENDING: Final = _gauge("pending_requests", "Requests that are accepted but not yet decided.")
PENDING_AGE: Final = _gauge("pending_age_seconds", "Age of the oldest pending request.")
UNREPORTED_HOSTS: Final = _gauge(
    "hosts_unreported", "Hosts whose agents do not report their instances."
)
DOUBTED_HOSTS: Final = _gauge("hosts_doubted", "Hosts whose instance list is in doubt.")
RESOURCE_INVENTORY: Final = _gauge(
    "resource_inventory",
    "Physical amount of the resource class on all hosts, in the unit of the class.",
    *_BY_CLASS,
)
RESOURCE_RESERVED: Final = _gauge(
    "resource_reserved", "Amount that hosts keep for themselves.", *_BY_CLASS
)
RESOURCE_CAPACITY: Final = _gauge(
    "resource_capacity",
    "Amount that servers may be given: what is not reserved, times the allocation ratio.",
    *_BY_CLASS,
)
RESOURCE_USED: Final = _gauge(
    "resource_used", "Amount that allocations in the ledger use.", *_BY_CLASS
)
RESOURCE_HELD: Final = _gauge(
    "resource_held",
    "Amount that this process holds for claims not yet confirmed, and for offers to parent zones.",
    *_BY_CLASS,
)
RESOURCE_ALLOCATABLE: Final = _gauge(
    "resource_allocatable",
    "Amount neither used nor held on hosts that are enabled and up.",
    *_BY_CLASS,
)
RESOURCE_LARGEST: Final = _gauge(
    "resource_largest_slot",
    "Largest amount that one server can still get of a single provider on a host that is enabled "
    "and up.",
    *_BY_CLASS,
)
RESOURCE_STRANDED: Final = _gauge(
    "resource_stranded",
    "Allocatable amount that remains if each host is filled with the watched flavor that uses most "
    "of it. Child providers are not counted.",
    *_BY_CLASS,
)
FLAVOR_SLOTS: Final = _gauge(
    "flavor_slots",
    "Further servers of a watched flavor that the scheduler would place; a lower bound for rules "
    "that need more than 200 trial placements.",
    "flavor",
    "availability_zone",
)
CHILD_ZONES: Final = _gauge("child_zones", "Child zones by state.", "state")
ZONE_INSTANCES_UNWANTED: Final = _gauge(
    "zone_instances_unwanted",
    "Unwanted instances that child zones may have and that are not yet withdrawn.",
)
OFFERS_HELD: Final = _gauge("offers_held", "Offers whose capacity is held for parent zones.")
POLICY_OK: Final = _gauge("policy_ok", "1 when the policy file as written is in force, else 0.")

# Exporters list these counters and histograms from the start, even before their first event.
COUNTED: Final = (
    HTTP_REQUESTS,
    HTTP_SECONDS,
    HTTP_CONNECTIONS_CLOSED,
    DECISIONS,
    DECISION_SECONDS,
    REFUSALS,
    RULE_FAILURES,
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
    HOST_AUDITS,
    AGENT_FINDINGS,
    BUS_REFUSALS,
    TOKENS,
)
# The values of gauges are read at the time of a scrape; see `Reading`.
GAUGES: Final = (
    INFO,
    UPTIME,
    FEED_LAG,
    TABLE_AGE,
    TABLE_VERSION,
    LEDGER_UP,
    BROKER_UP,
    GATEWAY_SESSIONS,
    KEYSTONE_UP,
    HOSTS,
    HOSTS_UNCERTAIN,
    HEARTBEAT_AGE,
    INSTANCES,
    SCHEDULERS,
    PENDING,
    PENDING_AGE,
    UNREPORTED_HOSTS,
    DOUBTED_HOSTS,
    RESOURCE_INVENTORY,
    RESOURCE_RESERVED,
    RESOURCE_CAPACITY,
    RESOURCE_USED,
    RESOURCE_HELD,
    RESOURCE_ALLOCATABLE,
    RESOURCE_LARGEST,
    RESOURCE_STRANDED,
    FLAVOR_SLOTS,
    CHILD_ZONES,
    ZONE_INSTANCES_UNWANTED,
    OFFERS_HELD,
    POLICY_OK,
)
