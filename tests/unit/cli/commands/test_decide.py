"""`berth decide`: the service's own choice, its explanation and its exit code."""

import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from berth.config.policy_file import load_policy
from berth.domain.compute.decision import Decision
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.inventory.provider import Provider
from berth.scheduling.plan.planning import seed_of
from berth.tables.host.feed import table_of
from berth.testing.fleets import Box, sized, snapshot_of
from tests.unit.cli.conftest import Run

STATE = snapshot_of(
    [
        Box("big", inventories=sized(vcpus=16, memory_mb=16_384)),
        Box("small", inventories=sized(vcpus=4, memory_mb=4096)),
        Box("off", disabled=True),
        Box("many", node="many-1"),
    ]
)
ONE = {"request_id": "req-1", "flavor": {"vcpus": 2, "memory_mb": 1024}}


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return the command line for a state and a request for one instance."""
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(STATE))
    (tmp_path / "request.json").write_text(json.dumps(ONE))
    state, request = tmp_path / "state.json", tmp_path / "request.json"
    return ["decide", "--state", str(state), "--request", str(request), "--policy", "nova"]


def test_the_choice_is_explained_step_by_step(run: Run, words: list[str]) -> None:
    """The output has removed hosts with their reason, candidates with weights, and the choice."""
    ended = run(*words, "--policy", "nova")
    assert ended.code == 0, ended.err
    assert f"seed {seed_of('req-1')}" in ended.out
    assert "ComputeFilter: its service is disabled" in ended.out
    assert "many (many-1)" in ended.out
    assert "1.000 × 1 (16,384)" in ended.out
    assert "Chosen: big\n" in ended.out
    assert "Placed on big" in ended.out


def test_the_costs_that_a_driver_goes_by_are_told(run: Run, words: list[str]) -> None:
    """The costs of the driver are printed, and the weights are marked as unused."""
    path = Path(words[2]).with_name("costs.toml")
    path.write_text(
        'name = "costs"\ndriver = "least_cost"\n[[filters]]\nname = "ResourcesFilter"\n'
        '[[costs]]\nname = "compute_fill_first"\n[[costs]]\nname = "noop"\n'
    )
    ended = run(*words, "--policy", str(path))
    assert ended.code == 0, ended.err
    assert "The driver does not choose by these weights." in ended.out
    assert "Scores used by the driver, best hosts first" in ended.out
    assert "0.250 × -1 (4,096)" in ended.out
    assert "Best host without each score, of these 4" in ended.out
    assert re.search(r"without compute_fill_first +big +-1\n", ended.out)
    assert "Chosen: small\n" in ended.out


def test_json_has_the_record_that_the_service_would_keep(run: Run, words: list[str]) -> None:
    """The JSON has the driver's decision, and all hosts with their verdicts."""
    ended = run(*words, "--json")
    assert ended.code == 0
    document = json.loads(ended.out)
    decision = msgspec.convert(document["decision"], Decision)
    policy = load_policy(Path("nova"))
    request_id = decision.request_id
    assert (request_id, decision.policy_hash, decision.seed) == (
        "req-1",
        policy.hash,
        seed_of("req-1"),
    )
    (instance,) = document["instances"]
    candidates = [one["host"] for one in instance["candidates"]]
    assert [one.host for one in decision.placements] == candidates[:1]
    assert set(candidates) == {"big", "many", "small"}
    assert [one["host"] for one in instance["removed"]] == ["off"]
    verdicts = {one["filter"]: one["passed"] for one in instance["removed"][0]["verdicts"]}
    assert verdicts == {rule.name: rule.name != "ComputeFilter" for rule in policy.filters}


def test_equal_files_give_equal_output(run: Run, words: list[str]) -> None:
    """Two runs with the same files have the same output."""
    assert run(*words, "--json").out == run(*words, "--json").out


def test_a_refusal_ends_with_3_and_says_what_would_help(
    run: Run, words: list[str], tmp_path: Path
) -> None:
    """A refusal has relaxations, and shows placed instances and the one that failed."""
    document = {**ONE, "count": 9, "flavor": {"vcpus": 4, "memory_mb": 1024}}
    (tmp_path / "request.json").write_text(json.dumps(document))
    ended = run(*words)
    assert ended.code == 3
    assert "Refused (not_enough)" in ended.out
    assert "2 fewer instances: 7 of 9 fit" in ended.out
    assert "ResourcesFilter: VCPU: 4 requested, 0 free" in ended.out
    assert ended.err == ""
    ended = run(*words, "--json")
    assert ended.code == 3
    document = json.loads(ended.out)
    assert document["decision"]["verdict"] == "refused"
    assert document["decision"]["placements"] == []
    assert len(document["instances"]) == 8
    assert document["instances"][-1]["placement"] is None


def test_a_group_that_no_filter_keeps_is_refused(
    run: Run, words: list[str], tmp_path: Path
) -> None:
    """A policy without the filter of the group's rule is refused before hosts are checked."""
    group = ServerGroup("group-1", "apart", GroupPolicy.ANTI_AFFINITY)
    (tmp_path / "state.json").write_bytes(
        msgspec.json.encode(replace(STATE, server_groups=(group,)))
    )
    (tmp_path / "request.json").write_text(json.dumps({**ONE, "group_uuid": group.uuid}))
    policy = tmp_path / "policy.toml"
    policy.write_text('name = "c"\n[[filters]]\nname = "ResourcesFilter"\n')
    assert run(*words).code == 0
    ended = run(*words, "--policy", policy)
    assert ended.code == 3
    assert "Refused (unsupported_policy)" in ended.out
    assert "ServerGroupAntiAffinityFilter is not among" in ended.out
    document = json.loads(run(*words, "--policy", policy, "--json").out)
    assert document["instances"] == document["decision"]["filters"] == []
    assert document["decision"]["refusal"]["code"] == "unsupported_policy"


def test_the_limit_of_a_driver_removes_hosts(run: Run, words: list[str], tmp_path: Path) -> None:
    """The driver's limit is listed and explained like a filter."""
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'name = "c"\ndriver = "simple"\n[[filters]]\nname = "ResourcesFilter"\n'
        "[driver_options]\nmax_cores = 6\n"
    )
    state = replace(STATE, providers=tuple(_busy(one) for one in STATE.providers))
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(state))
    document = json.loads(run(*words, "--policy", policy, "--json").out)
    (instance,) = document["instances"]
    assert [one["host"] for one in instance["removed"]] == ["big"]
    assert len(instance["candidates"]) == 3
    assert document["decision"]["filters"] == instance["filters"]
    assert [(one["name"], one["after"]) for one in instance["filters"]] == [
        ("ResourcesFilter", 4),
        ("max_cores", 3),
    ]
    out = run(*words, "--policy", policy).out
    assert "max_cores: its use would exceed max_cores = 6 by 1" in out


def _busy(provider: Provider) -> Provider:
    """Return the provider with five CPUs in use if it is that of `big`, else unchanged."""
    is_big = provider.inventories["VCPU"].total == 16
    return replace(provider, used={"VCPU": 5}) if is_big else provider


def test_hosts_are_cut_for_people_and_on_demand(run: Run, words: list[str], tmp_path: Path) -> None:
    """The text shows 20 hosts of each kind by default, and the JSON all of them."""
    crowd = snapshot_of([Box(f"h{number:02}", disabled=number % 2 == 0) for number in range(60)])
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(crowd))
    assert "(20 of 30)" in run(*words).out
    assert "(5 of 30)" in run(*words, "--hosts", 5).out
    assert len(json.loads(run(*words, "--json").out)["instances"][0]["removed"]) == 30
    cut = json.loads(run(*words, "--json", "--hosts", 5).out)["instances"][0]
    assert (len(cut["removed"]), cut["removed_total"]) == (5, 30)


def test_policy_and_seed_are_the_callers(run: Run, words: list[str], tmp_path: Path) -> None:
    """With the chance driver, the seed determines the choice."""
    policy = tmp_path / "policy.toml"
    policy.write_text('name = "c"\ndriver = "chance"\n[[filters]]\nname = "ResourcesFilter"\n')
    words += ["--policy", str(policy), "--json", "--seed"]
    hosts = table_of(STATE)
    chosen: set[str] = set()
    for seed in range(20):
        decision = json.loads(run(*words, seed).out)["decision"]
        assert decision["seed"] == seed
        chosen.add(decision["placements"][0]["host"])
    assert chosen == set(hosts.names(hosts.alive_rows()))
    ended = run(*[word for word in words if word != "--json"], 1)
    assert "The driver does not choose by these weights." not in ended.out


def test_a_driver_without_weights_is_not_explained_by_them(
    run: Run, words: list[str], tmp_path: Path
) -> None:
    """The weights are shown with a note that the driver does not use them."""
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'name = "c"\ndriver = "chance"\n[[filters]]\nname = "ResourcesFilter"\n'
        '[[weighers]]\nname = "RAMWeigher"\n'
    )
    assert "The driver does not choose by these weights." in run(*words, "--policy", policy).out


def test_an_empty_fleet_is_refused_with_that_reason(
    run: Run, words: list[str], tmp_path: Path
) -> None:
    """A state without hosts is refused with `no_hosts`."""
    empty = replace(STATE, hosts=(), providers=(), services=())
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(empty))
    ended = run(*words)
    assert ended.code == 3
    assert "Refused (no_hosts)" in ended.out


@pytest.mark.parametrize("name", ["state.json", "request.json", "policy.toml"])
def test_a_wrong_file_ends_with_2(run: Run, words: list[str], tmp_path: Path, name: str) -> None:
    """The error names the file, and standard output stays empty."""
    (tmp_path / name).write_text("]")
    ended = run(*words, "--policy", tmp_path / "policy.toml")
    assert ended.code == 2
    assert ended.out == ""
    assert str(tmp_path) in ended.err
