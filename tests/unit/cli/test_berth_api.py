"""Decisions, exported state and the policy, from Berth's own API."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec

from berth.domain.compute.decision import (
    Counterfactual,
    Decision,
    FilterCount,
    Placement,
    Refusal,
    RefusalCode,
    Relaxation,
    ScoredHost,
    ScorePart,
    TriedDecision,
    Verdict,
)
from berth.domain.compute.quota import FILE_BYTES_MAX
from berth.domain.hardware.assignment import Assignment
from berth.domain.ledger.change import Snapshot
from tests.unit.cli.cloud import UUID, Cloud
from tests.unit.cli.conftest import Run

PARTS = (ScorePart("RAMWeigher", 1024.0, 0.25, 2.0),)
PLACED = Decision(
    request_id="req-1",
    verdict=Verdict.PLACED,
    policy_name="default",
    policy_hash="abc",
    driver="filter",
    seed=7,
    table_version=9,
    decided_at_s=1.0,
    duration_us=1500,
    filters=(FilterCount("ComputeFilter", 3, 2),),
    placements=(
        Placement(
            instance_uuid="i-1",
            host="h1",
            node="h1",
            provider_uuid="p",
            candidates=2,
            chosen=ScoredHost.of("h1", "h1", 0.5, PARTS),
            runners_up=(ScoredHost.of("h2", "n2", 0.25, PARTS),),
        ),
    ),
)
REFUSED = replace(
    PLACED,
    verdict=Verdict.REFUSED,
    placements=(),
    refusal=Refusal(
        code=RefusalCode.ALL_FILTERED,
        message="No valid host was found.",
        placed=0,
        asked=1,
        hosts_total=3,
        filters=(FilterCount("ResourcesFilter", 3, 0, ("h1: MEMORY_MB: 9 requested, 8 free",)),),
        relaxations=(Relaxation("ResourcesFilter", "MEMORY_MB", "1 MB less memory: 1 host", 1),),
    ),
)


def keep(cloud: Cloud, decision: Decision) -> None:
    """Let the cloud answer with a decision."""
    path = f"/berth/v1/decisions/{decision.request_id}"
    cloud.fixed["GET", path] = (200, msgspec.to_builtins(decision))


def test_a_placement_is_explained(run: Run, cloud: Cloud) -> None:
    """The output has the filters, the choice, and the parts of each score."""
    keep(cloud, PLACED)
    ended = run("explain", "req-1")
    assert ended.code == 0
    for said in ("req-1: placed", "seed 7", "ComputeFilter", "h1", "h2 (n2)", "0.250 × 2 (1,024)"):
        assert said in ended.out


def test_a_trial_is_explained_with_all_hosts(run: Run, cloud: Cloud) -> None:
    """A dry run sends the body of a create and creates nothing; counterfactuals are shown."""
    cloud.add_flavor("small")
    found = (Counterfactual("RAMWeigher", "h9", "n9", 0.125),)
    answers = (
        (TriedDecision.of(PLACED, found), "Best host without each weigher, of all 2", "h9 (n9)"),
        (TriedDecision.of(PLACED, ()), "Best host without each weigher, of these 2", "the same"),
        (PLACED, "Best host without each weigher, of these 2", "the same"),
    )
    words = ("server", "create", "web", "--flavor", "small", "--key", "k1", "--dry-run")
    for answer, title, name in answers:
        cloud.fixed["POST", "/berth/v1/decide"] = (200, msgspec.to_builtins(answer))
        ended = run(*words)
        assert ended.code == 0, ended.err
        assert (title in ended.out, name in ended.out) == (True, True)
        assert cloud.last.headers["Idempotency-Key"] == "k1"
        assert cloud.body()["server"]["flavorRef"] == "id-small"
    assert cloud.servers == {}
    assert msgspec.convert(json.loads(run(*words, "--json").out), Decision) == PLACED
    assert run(*words, "--wait").code == 2


def test_files_are_sent_with_a_create(run: Run, cloud: Cloud, tmp_path: Path) -> None:
    """Their contents are sent in base64, at the newest microversion that has the field."""
    cloud.add_flavor("small")
    cloud.fixed["POST", "/v2.1/servers"] = (400, {"badRequest": {"code": 400, "message": "no"}})
    file = tmp_path / "motd"
    file.write_bytes(b"hello=you")
    words = ("server", "create", "web", "--flavor", "small", "--file")
    run(*words, f"/etc/motd={file}")
    assert cloud.body()["server"]["personality"] == [
        {"path": "/etc/motd", "contents": "aGVsbG89eW91"}
    ]
    assert cloud.last.headers["OpenStack-API-Version"] == "compute 2.56"
    file.write_bytes(bytes(FILE_BYTES_MAX + 1))
    assert "larger than 16384 bytes" in run(*words, f"/etc/motd={file}").err
    assert "cannot be read" in run(*words, f"/etc/motd={tmp_path}/none").err


def test_a_trial_that_is_refused_ends_with_3(run: Run, cloud: Cloud) -> None:
    """A refused dry run ends with 3 and shows the relaxations."""
    cloud.add_flavor("small")
    cloud.fixed["POST", "/berth/v1/decide"] = (200, msgspec.to_builtins(REFUSED))
    words = ("server", "create", "web", "--flavor", "small", "--dry-run")
    ended = run(*words)
    assert (ended.code, run(*words, "--json").code) == (3, 3)
    assert "1 MB less memory: 1 host" in ended.out
    partial = replace(TriedDecision.of(REFUSED, ()), is_partial=True, zones_missing=("west",))
    cloud.fixed["POST", "/berth/v1/decide"] = (200, msgspec.to_builtins(partial))
    assert "Not all zones gave a complete answer: west." in run(*words).out


def test_groups_of_resources_are_explained(run: Run, cloud: Cloud) -> None:
    """The output names the providers of each resource group."""
    (placement,) = PLACED.placements
    mappings = {"": ("root-uuid", "child-uuid"), "_GPU": ("gpu-uuid",)}
    given = replace(placement, assignment=Assignment(mappings=mappings))
    keep(cloud, replace(PLACED, placements=(given,)))
    out = run("explain", "req-1").out
    for said in ("_GPU", "gpu-uuid", "(without suffix)", "root-uuid, child-uuid"):
        assert said in out


def test_a_refusal_is_explained(run: Run, cloud: Cloud) -> None:
    """The output has the filters, examples of removed hosts, and the relaxations."""
    keep(cloud, REFUSED)
    ended = run("explain", "req-1")
    assert ended.code == 0
    for said in ("refused", "9 requested, 8 free", "No valid host", "1 MB less memory: 1 host"):
        assert said in ended.out


def test_a_server_leads_to_its_newest_decision(run: Run, cloud: Cloud) -> None:
    """A server's uuid is accepted, and the ids of its other decisions are listed."""
    uuid, newest = UUID.format(1), replace(REFUSED, request_id="req-2/1")
    cloud.fixed["GET", f"/berth/v1/decisions/{uuid}"] = (200, msgspec.to_builtins(newest))
    about = {"decisions": [msgspec.to_builtins(one) for one in (newest, PLACED)]}
    cloud.fixed["GET", "/berth/v1/decisions"] = (200, about)
    assert json.loads(run("explain", uuid, "--json").out)["request_id"] == "req-2/1"
    out = run("explain", uuid).out
    assert "Request req-2/1: refused" in out
    assert out.count("req-2/1") == 1
    assert "req-1" in out.partition("Other decisions")[2]


def test_an_id_may_contain_slashes(run: Run, cloud: Cloud) -> None:
    """The id of a decision on an offer or a later attempt is sent with its slashes."""
    keep(cloud, replace(PLACED, request_id="offer:00ff/1"))
    assert run("explain", "offer:00ff/1").code == 0
    assert run("explain", "offer:00ff/1", "--server", UUID.format(1)).code == 0


def test_a_server_in_a_child_zone_leads_to_what_sent_it_there(run: Run, cloud: Cloud) -> None:
    """For a server without a record here, the create in its history names the request."""
    keep(cloud, PLACED)
    history = [
        {"action": "stop", "request_id": "req-2"},
        {"action": "create", "request_id": "req-1"},
    ]
    path = f"/v2.1/servers/{UUID.format(3)}/os-instance-actions"
    cloud.fixed["GET", path] = (200, {"instanceActions": history})
    assert json.loads(run("explain", UUID.format(3), "--json").out)["request_id"] == "req-1"


def test_an_unknown_request_ends_with_4(run: Run, cloud: Cloud) -> None:
    """The error says that the request may still wait for a scheduler."""
    ended = run("explain", "req-9")
    assert ended.code == 4
    assert "waits for a scheduler" in ended.err


def test_an_answer_of_another_age_can_still_be_had_as_json(run: Run, cloud: Cloud) -> None:
    """A decision that the client cannot read ends with 1, except with --json."""
    cloud.fixed["GET", "/berth/v1/decisions/req-1"] = (200, {"request_id": "req-1"})
    ended = run("explain", "req-1")
    assert ended.code == 1
    assert "use --json" in ended.err
    assert run("explain", "req-1", "--json").code == 0


def test_the_state_is_exported_whole_or_not_at_all(run: Run, cloud: Cloud, tmp_path: Path) -> None:
    """The file is replaced only by a complete state; an error leaves the old file."""
    state = json.loads(msgspec.json.encode(Snapshot(version=3, now_s=1.0)))
    cloud.fixed["GET", "/berth/v1/state"] = (200, state)
    path = tmp_path / "state.json"
    path.write_text("old")
    assert run("state", "export", "--output", path).code == 0
    assert json.loads(path.read_text()) == state
    assert json.loads(run("state", "export").out) == state
    cloud.fixed["GET", "/berth/v1/state"] = (403, {"forbidden": {"message": "not you"}})
    ended = run("state", "export", "--output", path)
    assert ended.code == 1
    assert "not you" in ended.err
    assert json.loads(path.read_text()) == state
    assert list(tmp_path.iterdir()) == [path]
    assert run("state", "export", "--output", tmp_path / "nowhere" / "x").code == 1


POLICY = {
    "name": "p",
    "filters": ["ResourcesFilter"],
    "weighers": [{"name": "RAMWeigher", "multiplier": -1.5}],
    "last_error": None,
}


def test_the_policy_is_shown_and_reloaded(run: Run, cloud: Cloud) -> None:
    """A reload says whether the policy has changed, and an invalid file ends with 1."""
    cloud.fixed["GET", "/berth/v1/policy"] = (200, POLICY)
    assert "RAMWeigher × -1.5" in run("policy", "show").out
    assert json.loads(run("policy", "show", "--json").out) == POLICY
    path = ("POST", "/berth/v1/policy/reload")
    cloud.fixed[path] = (200, {"changed": True, "policy": POLICY})
    assert "the changed policy is in force" in run("policy", "reload").out
    assert cloud.last.content == b""
    cloud.fixed[path] = (400, {"badRequest": {"message": "policy: p.toml: name: is required"}})
    ended = run("policy", "reload")
    assert ended.code == 1
    assert "is required" in ended.err


def test_a_policy_file_is_checked_without_a_cloud(run: Run, tmp_path: Path) -> None:
    """A valid file is described, and an invalid one ends with 2."""
    path = tmp_path / "p.toml"
    path.write_text('name = "mine"\n[[filters]]\nname = "ResourcesFilter"\n')
    ended = run("policy", "check", path)
    assert ended.code == 0
    assert "is a valid policy" in ended.out
    assert json.loads(run("policy", "check", path, "--json").out)["filters"] == ["ResourcesFilter"]
    path.write_text(
        'name = "mine"\ndriver = "least_cost"\nnormalisation = "share"\nalternates = 1\n'
        '[[filters]]\nname = "ResourcesFilter"\n[[costs]]\nname = "noop"\nweight = 2.5\n'
    )
    words = run("policy", "check", path).out.split()
    assert words[words.index("costs") + 1 :][:3] == ["noop", "×", "2.5"]
    assert words[words.index("normalisation") + 1] == "share"
    assert words[words.index("alternates") + 1] == "1"
    assert "weighers" not in words[: words.index("costs")]
    path.write_text('name = "mine"\n')
    ended = run("policy", "check", path)
    assert ended.code == 2
    assert f"{path}: filters" in ended.err
