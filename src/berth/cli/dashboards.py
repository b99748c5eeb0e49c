"""The Grafana dashboards: which metrics each panel shows, and how it combines them.

Expressions are made of the measures themselves, so that a panel cannot name a metric that does not
exist. `monitoring_files` writes the files.
"""

from dataclasses import dataclass
from typing import Any, Final

from berth.ports import measures as m
from berth.ports.telemetry import Measure

Json = dict[str, Any]

_COLUMNS: Final = 24
_HALF: Final = 12
_THIRD: Final = 8
_QUARTER: Final = 6
_TALL: Final = 8
_LOW: Final = 4
_WINDOW: Final = "$__rate_interval"
_JOB: Final = 'job=~"$job"'
_SCHEMA: Final = 39
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """An expression of PromQL, and the legend of its series, in which `{{label}}` is a label."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of a dashboard.

    `unit` is an id of Grafana (`s`, `percentunit`). `width` is in columns, of which a dashboard has
    24. With `is_stat`, the panel shows the newest value in large digits instead of a graph.
    """

    title: str
    about: str
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = _HALF
    is_stat: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard; `uid` names its file and is stable, so that links to it keep working."""

    uid: str
    title: str
    panels: tuple[Panel, ...]


def _select(name: str, **match: str) -> str:
    labels = [_JOB, *(f'{label}="{value}"' for label, value in match.items())]
    return f"{name}{{{','.join(labels)}}}"


def _by(function: str, labels: tuple[str, ...], inner: str) -> str:
    return f"{function} by ({', '.join(labels)}) ({inner})" if labels else f"{function}({inner})"


def _legend(labels: tuple[str, ...]) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def _rate(measure: Measure, *by: str, suffix: str = "", legend: str = "", **match: str) -> Query:
    """Return the rate per second of a counter, summed by labels."""
    inner = f"rate({_select(measure.name + suffix, **match)}[{_WINDOW}])"
    return Query(_by("sum", by, inner), legend or _legend(by))


def _highest(measure: Measure, *by: str, legend: str = "", **match: str) -> Query:
    """Return the highest value of a gauge: all processes see the same, some of them later."""
    return Query(_by("max", by, _select(measure.name, **match)), legend or _legend(by))


def _lowest(measure: Measure, *by: str, legend: str = "", **match: str) -> Query:
    return Query(_by("min", by, _select(measure.name, **match)), legend or _legend(by))


def _sum(measure: Measure, *by: str, legend: str = "") -> Query:
    """Return the sum of a gauge whose values belong to one process each."""
    return Query(_by("sum", by, _select(measure.name)), legend or _legend(by))


def _quantile(quantile: float, measure: Measure, *by: str) -> Query:
    """Return a quantile of a histogram, by labels."""
    inner = f"rate({_select(measure.name + '_bucket')}[{_WINDOW}])"
    legend = " ".join(filter(None, [f"{quantile:.0%}", _legend(by)]))
    return Query(f"histogram_quantile({quantile}, {_by('sum', (*by, 'le'), inner)})", legend)


def _mean(measure: Measure) -> Query:
    """Return the mean of the observations of a histogram."""
    parts = (_rate(measure, suffix=suffix).expression for suffix in ("_sum", "_count"))
    return Query(" / ".join(parts), "mean")


def _share(part: Measure, whole: Measure, *by: str) -> Query:
    """Return the share of one gauge in another, by labels."""
    return Query(
        f"{_highest(part, *by).expression} / {_highest(whole, *by).expression}", _legend(by)
    )


def _stat(title: str, measure: Measure, query: Query, unit: str = "short") -> Panel:
    return Panel(title, measure.text, (query,), unit, _QUARTER, is_stat=True)


def _plain(name: str, legend: str = "{{instance}}") -> Query:
    """Return a metric of the process itself, which Prometheus's library exports."""
    return Query(_select(name), legend)


_PLACE: Final = ("resource_class", "availability_zone")
_TARGET: Final = ("instance",)

OVERVIEW: Final = Board(
    "berth-overview",
    "Berth overview",
    (
        Panel(
            "Processes",
            "Berth processes that Prometheus scrapes.",
            (Query(f"sum({_select('up')})"),),
            width=_QUARTER,
            is_stat=True,
        ),
        _stat("Schedulers", m.SCHEDULERS, _highest(m.SCHEDULERS)),
        _stat("Ledger", m.LEDGER_UP, _lowest(m.LEDGER_UP)),
        _stat("Oldest pending request", m.PENDING_AGE, _highest(m.PENDING_AGE), "s"),
        Panel("Hosts", m.HOSTS.text, (_highest(m.HOSTS, "state"),)),
        Panel("Instances", m.INSTANCES.text, (_highest(m.INSTANCES, "state"),)),
        Panel(
            "Decisions",
            "Decisions per second.",
            (_rate(m.DECISIONS, "operation", "verdict"),),
            "ops",
        ),
        Panel(
            "Requests", "HTTP requests per second.", (_rate(m.HTTP_REQUESTS, "status"),), "reqps"
        ),
        Panel(
            "Allocatable share",
            "Allocatable amount divided by capacity.",
            (_share(m.RESOURCE_ALLOCATABLE, m.RESOURCE_CAPACITY, *_PLACE),),
            "percentunit",
        ),
        Panel(
            "Queue",
            m.PENDING.text,
            (_highest(m.PENDING, legend="pending requests"),),
        ),
        Panel(
            "Versions",
            m.INFO.text,
            (Query(f"count by (version) ({_select(m.INFO.name)})", "{{version}}"),),
        ),
        Panel("Uptime", m.UPTIME.text, (_highest(m.UPTIME, *_TARGET),), "s"),
    ),
)

CAPACITY: Final = Board(
    "berth-capacity",
    "Berth capacity",
    (
        Panel(
            "Used share",
            "Used amount divided by capacity.",
            (_share(m.RESOURCE_USED, m.RESOURCE_CAPACITY, *_PLACE),),
            "percentunit",
        ),
        Panel(
            "Slots of flavors",
            m.FLAVOR_SLOTS.text,
            (_highest(m.FLAVOR_SLOTS, "flavor", "availability_zone"),),
        ),
        Panel(
            "Allocatable", m.RESOURCE_ALLOCATABLE.text, (_highest(m.RESOURCE_ALLOCATABLE, *_PLACE),)
        ),
        Panel("Used", m.RESOURCE_USED.text, (_highest(m.RESOURCE_USED, *_PLACE),)),
        Panel("Held", m.RESOURCE_HELD.text, (_sum(m.RESOURCE_HELD, *_PLACE),)),
        Panel("Reserved", m.RESOURCE_RESERVED.text, (_highest(m.RESOURCE_RESERVED, *_PLACE),)),
        Panel("Capacity", m.RESOURCE_CAPACITY.text, (_highest(m.RESOURCE_CAPACITY, *_PLACE),)),
        Panel("Inventory", m.RESOURCE_INVENTORY.text, (_highest(m.RESOURCE_INVENTORY, *_PLACE),)),
        Panel("Largest slot", m.RESOURCE_LARGEST.text, (_highest(m.RESOURCE_LARGEST, *_PLACE),)),
        Panel(
            "Stranded share",
            m.RESOURCE_STRANDED.text,
            (_share(m.RESOURCE_STRANDED, m.RESOURCE_ALLOCATABLE, *_PLACE),),
            "percentunit",
        ),
    ),
)

DECISIONS: Final = Board(
    "berth-decisions",
    "Berth API and decisions",
    (
        Panel(
            "Requests by route",
            "HTTP requests per second.",
            (_rate(m.HTTP_REQUESTS, "route"),),
            "reqps",
        ),
        Panel(
            "Requests by status",
            "HTTP requests per second. 501 answers calls of features that Berth does not have.",
            (_rate(m.HTTP_REQUESTS, "status"),),
            "reqps",
        ),
        Panel(
            "Duration of requests",
            m.HTTP_SECONDS.text,
            (_quantile(0.95, m.HTTP_SECONDS, "route"),),
            "s",
        ),
        Panel(
            "Closed connections",
            m.HTTP_CONNECTIONS_CLOSED.text,
            (_rate(m.HTTP_CONNECTIONS_CLOSED, "outcome"),),
            "ops",
        ),
        Panel("Decisions", m.DECISIONS.text, (_rate(m.DECISIONS, "operation", "verdict"),), "ops"),
        Panel(
            "Duration of decisions",
            m.DECISION_SECONDS.text,
            (_quantile(0.5, m.DECISION_SECONDS), _quantile(0.99, m.DECISION_SECONDS)),
            "s",
        ),
        Panel("Refusals", m.REFUSALS.text, (_rate(m.REFUSALS, "code", "filter"),), "ops", _THIRD),
        Panel(
            "Failures of rules",
            m.RULE_FAILURES.text,
            (_rate(m.RULE_FAILURES, "filter"),),
            "ops",
            _THIRD,
        ),
        Panel(
            "Claims",
            m.CLAIMS.text,
            (_rate(m.CLAIMS, "outcome"), _rate(m.RETRIES, legend="repeated plans")),
            "ops",
            _THIRD,
        ),
        Panel(
            "Queue",
            m.PENDING.text,
            (_highest(m.PENDING, legend="pending requests"),),
            width=_THIRD,
        ),
        Panel("Age of the queue", m.PENDING_AGE.text, (_highest(m.PENDING_AGE),), "s", _THIRD),
        Panel("Policy in force", m.POLICY_OK.text, (_lowest(m.POLICY_OK, *_TARGET),), width=_THIRD),
        Panel("Tokens", m.TOKENS.text, (_rate(m.TOKENS, "outcome"),), "ops"),
        Panel("Keystone", m.KEYSTONE_UP.text, (_lowest(m.KEYSTONE_UP, *_TARGET),)),
        Panel("Child zones", m.CHILD_ZONES.text, (_highest(m.CHILD_ZONES, "state"),), width=_THIRD),
        Panel("Offers held", m.OFFERS_HELD.text, (_sum(m.OFFERS_HELD),), width=_THIRD),
        Panel(
            "Unwanted instances in zones",
            m.ZONE_INSTANCES_UNWANTED.text,
            (_highest(m.ZONE_INSTANCES_UNWANTED),),
            width=_THIRD,
        ),
    ),
)

HOSTS: Final = Board(
    "berth-hosts",
    "Berth hosts and agents",
    (
        Panel("Hosts", m.HOSTS.text, (_highest(m.HOSTS, "state"),)),
        Panel("Sessions", m.GATEWAY_SESSIONS.text, (_highest(m.GATEWAY_SESSIONS, *_TARGET),)),
        Panel("Silent fleet", m.HOSTS_UNCERTAIN.text, (_highest(m.HOSTS_UNCERTAIN),), width=_THIRD),
        Panel("Oldest heartbeat", m.HEARTBEAT_AGE.text, (_highest(m.HEARTBEAT_AGE),), "s", _THIRD),
        Panel("Heartbeats", m.HEARTBEATS.text, (_rate(m.HEARTBEATS, "outcome"),), "ops", _THIRD),
        Panel("Tasks", m.TASKS.text, (_rate(m.TASKS, "task", "outcome"),), "ops"),
        Panel(
            "Duration of tasks",
            m.TASK_SECONDS.text,
            (_quantile(0.95, m.TASK_SECONDS, "task"),),
            "s",
        ),
        Panel("Failed builds", m.FAILED_BUILDS.text, (_rate(m.FAILED_BUILDS, "cause"),), "ops"),
        Panel(
            "Audits",
            m.HOST_AUDITS.text,
            (_rate(m.HOST_AUDITS, legend="audits"), _rate(m.AGENT_FINDINGS, "code", "outcome")),
            "ops",
        ),
        Panel(
            "Instance lists",
            "Hosts whose agents do not report their instances, or whose list is in doubt.",
            (
                _highest(m.UNREPORTED_HOSTS, legend="unreported"),
                _highest(m.DOUBTED_HOSTS, legend="in doubt"),
            ),
        ),
        Panel(
            "Messages about instances",
            m.INSTANCE_MESSAGES.text,
            (
                _rate(m.INSTANCE_MESSAGES, "outcome"),
                _rate(m.INSTANCE_RELOADS, "outcome", legend="reloaded {{outcome}}"),
            ),
            "ops",
        ),
    ),
)

LEDGER: Final = Board(
    "berth-ledger",
    "Berth ledger",
    (
        Panel("Ledger", m.LEDGER_UP.text, (_lowest(m.LEDGER_UP, *_TARGET),)),
        Panel("Broker", m.BROKER_UP.text, (_lowest(m.BROKER_UP, *_TARGET),)),
        Panel(
            "Duration of commits",
            m.COMMIT_SECONDS.text,
            (_quantile(0.5, m.COMMIT_SECONDS), _quantile(0.99, m.COMMIT_SECONDS)),
            "s",
        ),
        Panel(
            "Commits",
            "Batches per second.",
            (_rate(m.COMMIT_SECONDS, *_TARGET, suffix="_count"),),
            "ops",
        ),
        Panel(
            "Units per commit",
            m.COMMIT_UNITS.text,
            (_mean(m.COMMIT_UNITS), _quantile(0.99, m.COMMIT_UNITS)),
        ),
        Panel("Versions", m.TABLE_VERSION.text, (_highest(m.TABLE_VERSION, *_TARGET),)),
        Panel("Lag of replicas", m.FEED_LAG.text, (_highest(m.FEED_LAG, *_TARGET),)),
        Panel("Age of replicas", m.TABLE_AGE.text, (_highest(m.TABLE_AGE, *_TARGET),), "s"),
        Panel("Refused messages", m.BUS_REFUSALS.text, (_rate(m.BUS_REFUSALS, "reason"),), "ops"),
        Panel(
            "Memory",
            "Resident memory of each process.",
            (_plain("process_resident_memory_bytes"),),
            "bytes",
        ),
        Panel(
            "Processor",
            "CPU time per second of each process; 1 is a whole processor.",
            (Query(f"rate({_select('process_cpu_seconds_total')}[{_WINDOW}])", "{{instance}}"),),
            "percentunit",
        ),
        Panel(
            "Open files",
            "Open files of each process, divided by their limit.",
            (
                Query(
                    f"{_select('process_open_fds')} / {_select('process_max_fds')}", "{{instance}}"
                ),
            ),
            "percentunit",
        ),
    ),
)

BOARDS: Final = (OVERVIEW, CAPACITY, DECISIONS, HOSTS, LEDGER)


def grafana(board: Board) -> Json:
    """Return a dashboard in Grafana's JSON format, to be imported or provisioned."""
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["berth"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-3h", "to": "now"},
        "links": [
            {"type": "dashboards", "tags": ["berth"], "title": "Berth", "asDropdown": True},
        ],
        "templating": {"list": [_DATA_SOURCE, _JOBS]},
        "annotations": {"list": []},
        "panels": _placed(board.panels),
    }


_DATA_SOURCE: Final[Json] = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
}
_JOBS: Final[Json] = {
    "name": "job",
    "label": "Job",
    "type": "query",
    "datasource": _SOURCE,
    "query": {"query": f"label_values({m.INFO.name}, job)", "refId": "jobs"},
    "refresh": 2,
    "multi": True,
    "includeAll": True,
    "allValue": "berth.*",
    "current": {"text": "All", "value": "$__all"},
}


def _placed(panels: tuple[Panel, ...]) -> list[Json]:
    """Return panels in rows from left to right; a panel that does not fit begins a new row."""
    found: list[Json] = []
    x = y = row_height = 0
    for number, panel in enumerate(panels, 1):
        height = _LOW if panel.is_stat else _TALL
        if x + panel.width > _COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        at = {"x": x, "y": y, "w": panel.width, "h": height}
        found.append(_rendered(panel, number, at))
        x, row_height = x + panel.width, max(row_height, height)
    return found


def _rendered(panel: Panel, number: int, at: dict[str, int]) -> Json:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": query.expression,
            "legendFormat": query.legend or "__auto",
        }
        for index, query in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": "stat" if panel.is_stat else "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": at,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {} if panel.is_stat else {"tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": targets,
    }
