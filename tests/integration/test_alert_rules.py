"""The alert rules in `deploy/prometheus`: each fires when it should, and not when all is well.

`promtool` evaluates the rules on series that are written down here, with one sample a minute.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from berth.ports.measures import COUNTED, GAUGES
from tests.prometheus import promtool

ROOT = Path(__file__).parents[2]
RULES_FILE = ROOT / "deploy" / "prometheus" / "berth.rules.yml"
RUNBOOKS = ROOT / "docs" / "guides" / "runbooks.md"
YAML: Any = import_module("yaml")  # PyYAML is installed with schemathesis and has no type hints
GROUPS: list[dict[str, Any]] = YAML.safe_load(RULES_FILE.read_text("utf-8"))["groups"]
RULES: dict[str, dict[str, Any]] = {rule["alert"]: rule for one in GROUPS for rule in one["rules"]}

# The targets of the examples: two APIs and a scheduler.
A = 'job="berth",instance="a"'
B = 'job="berth",instance="b"'
S = 'job="berth",instance="s"'
Series = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """Series with which a rule fires, with the labels of its alerts, and others with which not.

    Attributes:
        fires: the values of each series, in promtool's notation.
        labels: the labels of each alert, without the severity.
        quiet: the values of series with which the rule does not fire.
        minutes: the time of the evaluation.
    """

    fires: Series
    labels: tuple[Mapping[str, str], ...]
    quiet: Series
    minutes: int = 20
    also_quiet: tuple[Series, ...] = field(default=())


def target(instance: str, **labels: str) -> dict[str, str]:
    """Return the labels of an alert about one process."""
    return {"job": "berth", "instance": instance, **labels}


def buckets(name: str, labels: str, fast: str, slow: str) -> dict[str, str]:
    """Return the buckets of a histogram: up to 0.5 s, up to 5 s, and all."""
    return {
        f'{name}_bucket{{{labels},le="0.5"}}': fast,
        f'{name}_bucket{{{labels},le="5.0"}}': slow,
        f'{name}_bucket{{{labels},le="+Inf"}}': slow,
    }


JOB = {"job": "berth"}
ROUTE = "/v2.1/servers"
MEMORY = 'resource_class="MEMORY_MB",availability_zone="nova"'
MEMORY_LABELS = {"job": "berth", "resource_class": "MEMORY_MB", "availability_zone": "nova"}

CASES: dict[str, Case] = {
    "BerthProcessDown": Case(
        {f"up{{{A}}}": "1 1 0x20", f"up{{{B}}}": "1x20"},
        (target("a"),),
        {f"up{{{A}}}": "1 1 0 1x20", 'up{job="node",instance="n"}': "0x20"},
    ),
    "BerthNoScheduler": Case(
        {f"berth_schedulers{{{A}}}": "2 2 0x20", f"berth_schedulers{{{B}}}": "2 1 0x20"},
        (JOB,),
        # One API has not read the reports yet.
        {f"berth_schedulers{{{A}}}": "1x20", f"berth_schedulers{{{B}}}": "0x20"},
    ),
    "BerthProcessRestarts": Case(
        {f"process_start_time_seconds{{{A}}}": "1x10 60 120 180 180x7"},
        (target("a"),),
        {
            f"process_start_time_seconds{{{A}}}": "1x10 60x10",
            'process_start_time_seconds{job="node",instance="n"}': "1+60x20",
        },
    ),
    "BerthReplicaBehind": Case(
        {
            f"berth_table_age_seconds{{{A}}}": "1x10 30+60x10",
            f"berth_table_age_seconds{{{B}}}": "1x20",
        },
        (target("a"),),
        {f"berth_table_age_seconds{{{A}}}": "1x10 30 1x10"},
    ),
    "BerthBrokerUnreachable": Case(
        {f"berth_broker_up{{{A}}}": "1x5 0x15", f"berth_broker_up{{{B}}}": "1x20"},
        (target("a"),),
        {f"berth_broker_up{{{A}}}": "1x18 0 1"},
    ),
    "BerthKeystoneUnavailable": Case(
        {f"berth_keystone_up{{{A}}}": "1x5 0x15"},
        (target("a"),),
        {f"berth_keystone_up{{{A}}}": "1x20"},
    ),
    "BerthPolicyInvalid": Case(
        {f"berth_policy_ok{{{S}}}": "1x5 0x15", f"berth_policy_ok{{{A}}}": "1x20"},
        (target("s"),),
        {f"berth_policy_ok{{{S}}}": "1x20"},
    ),
    "BerthMessagesRefused": Case(
        {f"up{{{A}}}": "1x20", f'berth_bus_refusals_total{{{A},reason="forged"}}': "_x15 1x5"},
        ({"reason": "forged"},),
        {f'berth_bus_refusals_total{{{A},reason="forged"}}': "3x20"},
        # Prometheus is new, and the process is not.
        also_quiet=(
            {
                f"up{{{A}}}": "_x15 1x5",
                f'berth_bus_refusals_total{{{A},reason="forged"}}': "_x15 3x5",
            },
        ),
    ),
    "BerthLedgerUnavailable": Case(
        {f"berth_ledger_up{{{A}}}": "1x5 0x15", f"berth_feed_lag_versions{{{A}}}": "0x5 stale"},
        (target("a"),),
        {f"berth_ledger_up{{{A}}}": "1x20", f"berth_feed_lag_versions{{{A}}}": "0x20"},
        # This is the next alert.
        also_quiet=(
            {f"berth_ledger_up{{{A}}}": "0x20", f"berth_feed_lag_versions{{{A}}}": "0x20"},
        ),
    ),
    "BerthLedgerWritesFail": Case(
        {f"berth_ledger_up{{{A}}}": "1x5 0x15", f"berth_feed_lag_versions{{{A}}}": "0x20"},
        (target("a"),),
        {f"berth_ledger_up{{{A}}}": "1x20", f"berth_feed_lag_versions{{{A}}}": "0x20"},
    ),
    "BerthLedgerCommitsSlow": Case(
        buckets("berth_ledger_commit_seconds", S, "0+90x30", "0+100x30"),
        (target("s"),),
        buckets("berth_ledger_commit_seconds", S, "0+100x30", "0+100x30"),
        minutes=30,
    ),
    "BerthHostsDown": Case(
        {f'berth_hosts{{{A},state="down"}}': "0x5 2x15", f'berth_hosts{{{A},state="up"}}': "3x20"},
        (JOB,),
        {
            f'berth_hosts{{{A},state="down"}}': "0x17 1x3",
            f'berth_hosts{{{A},state="disabled"}}': "5x20",
        },
    ),
    "BerthHostsSilent": Case(
        {f"berth_hosts_uncertain{{{A}}}": "0x5 1x15", f"berth_hosts_uncertain{{{B}}}": "0x20"},
        (JOB,),
        {f"berth_hosts_uncertain{{{A}}}": "0x20"},
    ),
    "BerthHostsDisconnected": Case(
        {
            f"berth_gateway_sessions{{{A}}}": "3x5 1x15",
            f"berth_gateway_sessions{{{B}}}": "2x20",
            f"berth_table_version{{{A}}}": "9x20",
            f"berth_table_version{{{B}}}": "9x20",
            f'berth_hosts{{{A},state="up"}}': "5x20",
            # An agent's own session does not count.
            'berth_gateway_sessions{job="berth",instance="agent"}': "1x20",
        },
        (JOB,),
        {
            f"berth_gateway_sessions{{{A}}}": "3x20",
            f"berth_gateway_sessions{{{B}}}": "2x20",
            f"berth_table_version{{{A}}}": "9x20",
            f"berth_table_version{{{B}}}": "9x20",
            f'berth_hosts{{{A},state="up"}}': "5x20",
        },
        # Hosts of `berth up` have no sessions.
        also_quiet=(
            {
                f"berth_gateway_sessions{{{A}}}": "0x20",
                f"berth_table_version{{{A}}}": "9x20",
                f'berth_hosts{{{A},state="up"}}': "5x20",
            },
        ),
    ),
    "BerthHeartbeatsNotSaved": Case(
        {f'berth_heartbeats_total{{{A},outcome="failed"}}': "0+10x20"},
        (target("a"),),
        {f'berth_heartbeats_total{{{A},outcome="failed"}}': "4x20"},
    ),
    "BerthBuildsFail": Case(
        {'berth_failed_builds_total{job="berth",instance="h",cause="image"}': "0x10 2+1x10"},
        ({"cause": "image"},),
        {'berth_failed_builds_total{job="berth",instance="h",cause="image"}': "0x15 2x5"},
    ),
    "BerthTasksFail": Case(
        {f'berth_agent_tasks_total{{{A},task="spawning",outcome="failed"}}': "0+6x40"},
        ({"task": "spawning"},),
        {f'berth_agent_tasks_total{{{A},task="spawning",outcome="done"}}': "0+60x40"},
        minutes=40,
    ),
    "BerthInstanceListsInDoubt": Case(
        {f"berth_hosts_doubted{{{S}}}": "0x5 1x25"},
        (target("s"),),
        {f"berth_hosts_doubted{{{S}}}": "0x5 1x3 0x22"},
        minutes=30,
    ),
    "BerthAuditFindings": Case(
        {
            f"up{{{A}}}": "1x80",
            f'berth_host_audit_findings_total{{{A},code="usage",outcome="found"}}': "_x70 1x10",
        },
        ({"code": "usage"},),
        {
            f'berth_host_audit_findings_total{{{A},code="usage",outcome="found"}}': "1x80",
            f'berth_host_audit_findings_total{{{A},code="usage",outcome="repaired"}}': "0x70 1x10",
        },
        minutes=80,
    ),
    "BerthRequestsWait": Case(
        {f"berth_pending_age_seconds{{{A}}}": "0x10 1+60x10"},
        (JOB,),
        {f"berth_pending_age_seconds{{{A}}}": "0x10 30 0x9"},
    ),
    "BerthRequestsRefused": Case(
        {f'berth_refusals_total{{{S},code="no_valid_host",filter="ResourcesFilter"}}': "0+12x40"},
        ({"code": "no_valid_host", "filter": "ResourcesFilter"},),
        {f'berth_refusals_total{{{S},code="no_valid_host",filter="ResourcesFilter"}}': "0+1x40"},
        minutes=40,
    ),
    "BerthRuleFails": Case(
        {f"up{{{S}}}": "1x80", f'berth_rule_failures_total{{{S},filter="MyFilter"}}': "_x70 1x10"},
        ({"filter": "MyFilter"},),
        {f'berth_rule_failures_total{{{S},filter="MyFilter"}}': "0x80"},
        minutes=80,
    ),
    "BerthSchedulersCollide": Case(
        {
            f'berth_claims_total{{{S},outcome="committed"}}': "0+60x40",
            f'berth_claims_total{{{S},outcome="stale"}}': "0+40x40",
        },
        ({},),
        {
            f'berth_claims_total{{{S},outcome="committed"}}': "0+60x40",
            f'berth_claims_total{{{S},outcome="stale"}}': "0+6x40",
        },
        minutes=40,
    ),
    "BerthApiFails": Case(
        {f'berth_http_requests_total{{{A},method="POST",route="{ROUTE}",status="5xx"}}': "0+2x20"},
        ({"route": ROUTE},),
        # Calls of features that Berth lacks are no failures, however many there are.
        {
            f'berth_http_requests_total{{{A},route="{ROUTE}",status="501"}}': "0+90x20",
            f'berth_http_requests_total{{{A},route="{ROUTE}",status="4xx"}}': "0+90x20",
            f'berth_http_requests_total{{{A},route="{ROUTE}",status="2xx"}}': "0+90x20",
        },
    ),
    "BerthApiSlow": Case(
        buckets("berth_http_request_seconds", f'{A},route="{ROUTE}"', "0+80x30", "0+100x30"),
        ({"route": ROUTE},),
        buckets("berth_http_request_seconds", f'{A},route="{ROUTE}"', "0+99x30", "0+100x30"),
        minutes=30,
    ),
    "BerthConnectionsRefused": Case(
        {
            f"up{{{A}}}": "1x20",
            f'berth_http_connections_closed_total{{{A},outcome="refused"}}': "_x17 4x3",
        },
        (target("a"),),
        {f'berth_http_connections_closed_total{{{A},outcome="idle"}}': "0+9x20"},
    ),
    "BerthChildZoneOffline": Case(
        {f'berth_child_zones{{{S},state="offline"}}': "0x5 1x15"},
        (JOB,),
        {f'berth_child_zones{{{S},state="disabled"}}': "1x20"},
    ),
    "BerthZoneInstancesUnwanted": Case(
        {f"berth_zone_instances_unwanted{{{S}}}": "0x5 2x75"},
        (JOB,),
        {f"berth_zone_instances_unwanted{{{S}}}": "0x5 2x25 0x50"},
        minutes=80,
    ),
    "BerthCapacityLow": Case(
        {
            f"berth_resource_allocatable{{{A},{MEMORY}}}": "900x40",
            f"berth_resource_capacity{{{A},{MEMORY}}}": "10000x40",
        },
        (MEMORY_LABELS,),
        {
            f"berth_resource_allocatable{{{A},{MEMORY}}}": "1100x40",
            f"berth_resource_capacity{{{A},{MEMORY}}}": "10000x40",
        },
        minutes=40,
    ),
    "BerthFlavorFull": Case(
        {
            f'berth_flavor_slots{{{A},flavor="large",availability_zone="east"}}': "0x30",
            f'berth_flavor_slots{{{A},flavor="large",availability_zone="west"}}': "3x5 0x25",
        },
        ({"job": "berth", "flavor": "large"},),
        {
            f'berth_flavor_slots{{{A},flavor="large",availability_zone="east"}}': "0x30",
            f'berth_flavor_slots{{{A},flavor="large",availability_zone="west"}}': "3x30",
        },
        minutes=30,
    ),
    "BerthCapacityStranded": Case(
        {
            f"berth_resource_stranded{{{A},{MEMORY}}}": "6000x80",
            f"berth_resource_capacity{{{A},{MEMORY}}}": "10000x80",
        },
        (MEMORY_LABELS,),
        {
            f"berth_resource_stranded{{{A},{MEMORY}}}": "4000x80",
            f"berth_resource_capacity{{{A},{MEMORY}}}": "10000x80",
        },
        minutes=80,
    ),
}


def filled(text: str, labels: Mapping[str, str]) -> str:
    """Return a text with the values of the labels that it names."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)


def example(name: str, series: Series, minutes: int, alerts: list[Any]) -> dict[str, Any]:
    """Return one test of promtool for a rule."""
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minutes}m", "alertname": name, "exp_alerts": alerts},
        ],
    }


def examples(name: str, case: Case) -> list[dict[str, Any]]:
    """Return the tests of promtool for a rule, which fires in the first and in no other."""
    rule = RULES[name]
    expected = [
        {
            "exp_labels": {**rule["labels"], **labels},
            "exp_annotations": {
                key: filled(text, labels) for key, text in rule["annotations"].items()
            },
        }
        for labels in case.labels
    ]
    quiet = [example(name, series, case.minutes, []) for series in (case.quiet, *case.also_quiet)]
    return [example(name, case.fires, case.minutes, expected), *quiet]


def run(
    tool: Path, folder: Path, tests: list[dict[str, Any]]
) -> "subprocess.CompletedProcess[str]":
    """Run tests of the rules with promtool."""
    file = folder / "tests.yml"
    # JSON is YAML, and promtool resolves the names of rule files from the folder of the tests.
    file.write_text(json.dumps({"rule_files": [str(RULES_FILE)], "tests": tests}), "utf-8")
    words = [str(tool), "test", "rules", str(file)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def test_every_rule_has_a_case() -> None:
    """Each rule has a case, and each case a rule."""
    assert set(CASES) == set(RULES)


def test_each_rule_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    """Each rule fires on the first series, with its labels and texts, and on no others."""
    # One run evaluates all examples; its output names those that fail.
    every = [one for name, case in CASES.items() for one in examples(name, case)]
    done = run(promtool(), tmp_path, every)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_scheduler_is_told_even_when_every_process_is_gone(tmp_path: Path) -> None:
    """The alert about schedulers fires when no process is left that could count them."""
    name = "BerthNoScheduler"
    lost = {f"berth_schedulers{{{A}}}": "1x5 stale", f"up{{{A}}}": "1x5 0x15"}
    done = run(promtool(), tmp_path, examples(name, Case(lost, ({},), CASES[name].quiet)))
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_wrong_examples(tmp_path: Path) -> None:
    """An example that expects an alert of series that are quiet fails, so the examples are run."""
    case = CASES["BerthHostsDown"]
    done = run(
        promtool(), tmp_path, examples("BerthHostsDown", Case(case.quiet, (JOB,), case.quiet))
    )
    assert done.returncode != 0


def test_rules_say_how_severe_they_are_and_where_to_read_on() -> None:
    """Each rule has a severity, a summary, and a link to its section of the runbooks."""
    sections = set(re.findall(r"^## (\w+)$", RUNBOOKS.read_text("utf-8"), re.MULTILINE))
    assert sections == set(RULES)
    for name, rule in RULES.items():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"].endswith(".")
        url = f"docs/guides/runbooks.md#{name.lower()}"
        assert rule["annotations"]["runbook_url"] == url


def test_rules_read_metrics_that_exist() -> None:
    """Every metric of Berth that a rule reads is in the table of measures."""
    known = {measure.name for measure in (*COUNTED, *GAUGES)}
    for rule in RULES.values():
        for name in re.findall(r"\bberth_\w+", rule["expr"]):
            assert name.removesuffix("_bucket") in known, name
