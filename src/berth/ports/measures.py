"""All metrics of Berth; `docs/reference/metrics.md` and the dashboards are generated from them."""

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


def _counter(name: str, text: str, *labels: str, unit: str, note: str = "") -> Measure:
    name = f"berth_{name}_total"
    return Measure(name, MetricType.COUNTER, text, labels, unit=unit, note=note)


def _gauge(name: str, text: str, *labels: str, unit: str = "", note: str = "") -> Measure:
    return Measure(f"berth_{name}", MetricType.GAUGE, text, labels, unit=unit, note=note)


def _histogram(
    name: str, text: str, bounds: tuple[float, ...], *labels: str, unit: str, note: str = ""
) -> Measure:
    name = f"berth_{name}"
    return Measure(name, MetricType.HISTOGRAM, text, labels, bounds, unit, note)


HTTP_REQUESTS: Final = _counter(
    "http_requests",
    "HTTP requests answered.",
    "method",
    "route",
    "status",
    unit="requests",
    note=(
        "Requests; `0xx` counts those that ended without a response. `5xx` does not include "
        "`501`, which answers calls of features that Berth does not have. `route`: template "
        "of the path, or `other`. `status`: `2xx` …, `501`."
    ),
)
HTTP_SECONDS: Final = _histogram(
    "http_request_seconds",
    "Time from a request's headers to the end of its response.",
    _SLOW,
    "route",
    unit="seconds",
    note="From the request's headers to the end of its response.",
)
HTTP_CONNECTIONS_CLOSED: Final = _counter(
    "http_connections_closed",
    "Connections closed at the limit: idle ones, and new ones when none was idle (refused).",
    "outcome",
    unit="connections",
    note=(
        "Closed because `api.connections_max` was reached: `idle` ones, or new ones that "
        "were `refused` because none was idle. `outcome`: `idle`, `refused`."
    ),
)
DECISIONS: Final = _counter(
    "decisions",
    "Requests decided, each counted once.",
    "operation",
    "verdict",
    unit="orders",
    note=(
        "Orders that this process decided and recorded; each counts once. `operation`: "
        "`create`, `retry`, `resize` …"
    ),
)
DECISION_SECONDS: Final = _histogram(
    "decision_seconds",
    "Time to compute the recorded plan of a request.",
    _FAST,
    "operation",
    unit="seconds",
    note="Time to compute the plan that was recorded.",
)
REFUSALS: Final = _counter(
    "refusals",
    "Requests refused, by reason and by the filter that left no host.",
    "code",
    "filter",
    unit="orders",
    note=(
        "Refused orders by reason and by the first filter that left no host. `filter`: of "
        "the policy, or `none`."
    ),
)
RULE_FAILURES: Final = _counter(
    "rule_failures",
    "Errors of filters that cost a refusal some of its hints.",
    "filter",
    unit="errors",
    note=(
        "Errors of filters that cost a refusal some of its hints; anything but 0 is a bug "
        "of the filter or of Berth. `filter`: of the policy, or `relaxations` for the "
        "search itself."
    ),
)
CLAIMS: Final = _counter(
    "claims",
    "Plans submitted to the ledger.",
    "outcome",
    unit="plans",
    note=(
        "Plans sent to the ledger: `committed`; `stale`, another scheduler was faster; "
        "`short`, the capacity was gone; `changed`, an instance had changed; `repeated`, "
        "already committed."
    ),
)
RETRIES: Final = _counter(
    "claim_retries",
    "Plans repeated because a claim was rejected.",
    unit="plans",
    note="Plans made again because a claim was rejected.",
)
COMMIT_SECONDS: Final = _histogram(
    "ledger_commit_seconds",
    "Time that the ledger takes to commit a batch of units.",
    _SLOW,
    unit="seconds",
    note=(
        "Time to commit a batch, including the wait for the lock; not measured with a "
        "ledger in `memory:`."
    ),
)
COMMIT_UNITS: Final = _histogram(
    "ledger_commit_units",
    "Units in a batch.",
    _SIZES,
    unit="units",
    note="Units that share one commit.",
)
TASKS: Final = _counter(
    "agent_tasks",
    "Tasks and stages of moves that agents have attempted.",
    "task",
    "outcome",
    unit="tasks",
    note=(
        "Tasks that agents performed: `done`, `failed` (recorded as failed), `error` (to be "
        "retried). `task`: task of the instance or stage of its move."
    ),
)
TASK_SECONDS: Final = _histogram(
    "agent_task_seconds",
    "Duration of a task on its host.",
    _WORK,
    "task",
    unit="seconds",
    note="Duration of a task on the host.",
)
INSTANCE_MESSAGES: Final = _counter(
    "instance_messages",
    "Messages from agents about their instances, by outcome.",
    "outcome",
    unit="messages",
    note=(
        "Messages of agents [about their "
        "instances](../guides/operate.md#which-instances-a-host-has) to this scheduler: "
        "`agreed` with the table, `differed` from it, `repeated` or late, `lost` on the "
        "way, `unreadable` because of another format, `unknown` because the ledger does not "
        "have the host."
    ),
)
INSTANCE_RELOADS: Final = _counter(
    "instance_reloads",
    "Instance lists in doubt that were reloaded from the ledger.",
    "outcome",
    unit="hosts",
    note=(
        "Instance lists in doubt that were reloaded from the ledger: the scheduler's copy "
        "was `right` or `wrong`."
    ),
)
FAILED_BUILDS: Final = _counter(
    "failed_builds",
    "Builds that failed on hosts.",
    "cause",
    unit="builds",
    note=(
        "Builds and arriving moves that failed on this agent's hosts: `image`, `claim` (no "
        "capacity after all), `driver`, `network`, `timeout`, `guest` (cannot be built "
        "anywhere)."
    ),
)
HEARTBEATS: Final = _counter(
    "heartbeats",
    "Heartbeats of hosts, by whether they were saved.",
    "outcome",
    unit="hosts",
    note="Heartbeats that were saved in the ledger (`sent`) or were not (`failed`).",
)
HOST_AUDITS: Final = _counter(
    "host_audits",
    "Audits of the ledger's records of single hosts, made for their agents.",
    unit="audits",
    note=(
        "Audits of the ledger's records of single hosts, which APIs make when agents report "
        "their hosts."
    ),
)
AGENT_FINDINGS: Final = _counter(
    "host_audit_findings",
    "Problems found on hosts or in the ledger's records of them, each counted once, and repairs.",
    "code",
    "outcome",
    unit="findings",
    note=(
        "Problems that agents `found` on their hosts or APIs in the ledger's records of "
        "them, each counted once, and those that were `repaired` "
        "([audits](../guides/operate.md#audits))."
    ),
)

BUS_REFUSALS: Final = _counter(
    "bus_refusals",
    "Messages on the broker that did not prove that they come from the control plane.",
    "reason",
    unit="messages",
    note=(
        "Messages on the broker that did not prove that they come from the control plane: "
        "`unsigned`, `forged` (another key), `expired` or `replayed`. Above 0 without a "
        "change of keys or clocks, someone else publishes there "
        "([keys](../guides/operate.md#a-broker-between-processes))."
    ),
)
TOKENS: Final = _counter(
    "tokens",
    "Requests with a token of Keystone, by the result of its check.",
    "outcome",
    unit="requests",
    note=(
        "Requests with a token of [Keystone](../guides/keystone.md), by the result of its "
        "check: `cached`, `accepted` by Keystone, `refused`, `grace` (valid lately, and "
        "Keystone is unavailable or too slow), `unavailable` (503), `busy` (503, too many "
        "validations)."
    ),
)

INFO: Final = _gauge(
    "info",
    "Always 1; the label is the version of Berth.",
    "version",
    note="Always 1.",
)
UPTIME: Final = _gauge(
    "uptime_seconds",
    "Time since the process started serving.",
    unit="seconds",
    note="Time since the process began to serve.",
)
FEED_LAG: Final = _gauge(
    "feed_lag_versions",
    "Versions by which the replica is behind the ledger.",
    unit="versions",
    note="Number of versions by which the replica is behind the ledger.",
)
TABLE_AGE: Final = _gauge(
    "table_age_seconds",
    "Time since the replica was last up to date.",
    unit="seconds",
    note=(
        "Time since the replica was last known to match the ledger; about 1 while nothing changes."
    ),
)
TABLE_VERSION: Final = _gauge(
    "table_version",
    "Ledger version that the replica matches.",
    unit="version",
    note="Ledger version that the replica matches.",
)
LEDGER_UP: Final = _gauge(
    "ledger_up",
    "1 when the ledger answers, else 0.",
    unit="0 or 1",
    note="Whether the ledger answers.",
)
GATEWAY_SESSIONS: Final = _gauge(
    "gateway_sessions",
    "Hosts with a session, in this agent process or at this gateway.",
    unit="hosts",
    note=(
        "Hosts that have a session with this API, or those of this agent process. Its sum "
        "over all APIs is the number of connected hosts."
    ),
)
BROKER_UP: Final = _gauge(
    "broker_up",
    "1 when the process is connected to its broker, else 0.",
    unit="0 or 1",
    note="Whether the process is connected to its broker, if it has one.",
)
KEYSTONE_UP: Final = _gauge(
    "keystone_up",
    "1 when Keystone validates tokens, else 0.",
    unit="0 or 1",
    note=(
        "Whether Keystone counts as "
        "[available](../guides/keystone.md#when-keystone-is-unavailable), with `auth.mode = "
        '"keystone"`; 0 from the beginning to the end of an outage.'
    ),
)
HOSTS: Final = _gauge(
    "hosts",
    "Hosts by state of their service.",
    "state",
    unit="hosts",
    note="Hosts by the state of their service. `state`: `up`, `down`, `disabled`.",
)
HOSTS_UNCERTAIN: Final = _gauge(
    "hosts_uncertain",
    "1 when too many hosts fell silent at once to count as down, else 0.",
    unit="0 or 1",
    note=(
        "1 when [too many hosts fell silent at once](../guides/operate.md#hosts) to count as down."
    ),
)
HEARTBEAT_AGE: Final = _gauge(
    "heartbeat_age_seconds",
    "Longest time since the last heartbeat among the hosts that are up.",
    unit="seconds",
    note="Age of the oldest heartbeat among hosts that are up.",
)
INSTANCES: Final = _gauge(
    "instances",
    "Instances by the status that clients see.",
    "state",
    unit="instances",
    note=(
        "Instances by each status that clients see: `ACTIVE`, `BUILD`, `ERROR`, "
        "`MIGRATING`, `REBUILD`, `RESIZE` …; `OTHER` is a status of a newer Berth."
    ),
)
SCHEDULERS: Final = _gauge(
    "schedulers",
    "Schedulers that are alive: each shares a report through the ledger every 5 s.",
    unit="processes",
    note=(
        "Live schedulers, `berth up` included; each shares a report through the ledger "
        "every 5 s, and counts as dead after three missed ones."
    ),
)
PENDING: Final = _gauge(
    "pending_requests",
    "Requests that are accepted but not yet decided.",
    unit="requests",
    note="Requests that are accepted and not yet decided.",
)
PENDING_AGE: Final = _gauge(
    "pending_age_seconds",
    "Age of the oldest pending request.",
    unit="seconds",
    note="Waiting time of the oldest pending request.",
)
UNREPORTED_HOSTS: Final = _gauge(
    "hosts_unreported",
    "Hosts whose agents do not report their instances.",
    unit="hosts",
    note="Hosts whose agents send this scheduler no instance lists.",
)
DOUBTED_HOSTS: Final = _gauge(
    "hosts_doubted",
    "Hosts whose instance list is in doubt.",
    unit="hosts",
    note="Hosts whose instance list is in doubt.",
)
RESOURCE_INVENTORY: Final = _gauge(
    "resource_inventory",
    "Physical amount of the resource class on all hosts, in the unit of the class.",
    *_BY_CLASS,
    unit="of the class",
    note="Physical amount on all hosts and their child providers.",
)
RESOURCE_RESERVED: Final = _gauge(
    "resource_reserved",
    "Amount that hosts keep for themselves.",
    *_BY_CLASS,
    unit="of the class",
    note="Amount that hosts keep for themselves.",
)
RESOURCE_CAPACITY: Final = _gauge(
    "resource_capacity",
    "Amount that servers may be given: what is not reserved, times the allocation ratio.",
    *_BY_CLASS,
    unit="of the class",
    note=("Amount that servers may be given: what is not reserved, times the allocation ratio."),
)
RESOURCE_USED: Final = _gauge(
    "resource_used",
    "Amount that allocations in the ledger use.",
    *_BY_CLASS,
    unit="of the class",
    note="Amount that allocations in the ledger use.",
)
RESOURCE_HELD: Final = _gauge(
    "resource_held",
    "Amount that this process holds for claims not yet confirmed, and for offers to parent zones.",
    *_BY_CLASS,
    unit="of the class",
    note=(
        "Amount that this process holds for claims that are not confirmed yet, and for "
        "offers to parent zones. Each process has its own holds, so this is the one gauge "
        "of capacity to aggregate with `sum`."
    ),
)
RESOURCE_ALLOCATABLE: Final = _gauge(
    "resource_allocatable",
    "Amount neither used nor held on hosts that are enabled and up.",
    *_BY_CLASS,
    unit="of the class",
    note="Amount neither used nor held on hosts that are enabled and up.",
)
RESOURCE_LARGEST: Final = _gauge(
    "resource_largest_slot",
    "Largest amount that one server can still get of a single provider on a host that is enabled "
    "and up.",
    *_BY_CLASS,
    unit="of the class",
    note="Largest amount that one server can still get of a single provider.",
)
RESOURCE_STRANDED: Final = _gauge(
    "resource_stranded",
    "Allocatable amount that remains if each host is filled with the watched flavor that uses most "
    "of it. Child providers are not counted.",
    *_BY_CLASS,
    unit="of the class",
    note=(
        "Allocatable amount that remains if each host is filled with the watched flavor "
        "that uses most of it; see [capacity](../guides/monitoring.md#capacity)."
    ),
)
FLAVOR_SLOTS: Final = _gauge(
    "flavor_slots",
    "Further servers of a watched flavor that the scheduler would place; a lower bound for rules "
    "that need more than 200 trial placements.",
    "flavor",
    "availability_zone",
    unit="servers",
    note=(
        "Further servers of a [watched flavor](../guides/monitoring.md#capacity) that the "
        "scheduler would place."
    ),
)
CHILD_ZONES: Final = _gauge(
    "child_zones",
    "Child zones by state.",
    "state",
    unit="zones",
    note=(
        "[child zones](../guides/zones.md) by whether this zone asks them. `state`: "
        "`active`, `offline`, `disabled`."
    ),
)
ZONE_INSTANCES_UNWANTED: Final = _gauge(
    "zone_instances_unwanted",
    "Unwanted instances that child zones may have and that are not yet withdrawn.",
    unit="instances",
    note=(
        "Unwanted instances that child zones may have and that this scheduler has not taken "
        "back yet; above 0 while a child is unavailable."
    ),
)
OFFERS_HELD: Final = _gauge(
    "offers_held",
    "Offers whose capacity is held for parent zones.",
    unit="offers",
    note="Offers whose capacity this scheduler holds for parent zones.",
)
POLICY_OK: Final = _gauge(
    "policy_ok",
    "1 when the policy file as written is in force, else 0.",
    unit="0 or 1",
    note="0 when the policy file is invalid and the previous policy is in force.",
)

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
