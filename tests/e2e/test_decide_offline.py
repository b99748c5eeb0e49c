"""`berth decide` on an exported state, compared with the running service."""

import json
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.conftest import Processes, Service
from tests.forks import run_berth


def _choices(decision: dict[str, Any]) -> list[tuple[str, float]]:
    return [(one["host"], one["chosen"]["score"]) for one in decision["placements"]]


def test_the_exported_state_gives_the_services_own_choice(
    processes: Processes, service: Service, tmp_path: Path
) -> None:
    """For several requests the offline choice and its score are those of the service.

    A dry run and the offline explanation name the same winner without each weigher.
    """
    address = service.url.removeprefix("http://")
    part = processes.start(
        "up", "--listen", address, "--data", str(tmp_path / "data"), "--fake-hosts", "12"
    )
    service.wait_until(lambda status: status["hosts"]["total"] == 12, part)
    service.flavor("small", vcpus=2, ram=2048)
    service.flavor("large", vcpus=12, ram=30_000)
    for number in range(9):
        service.wait_for_status(service.create("small", f"before-{number}"), "ACTIVE")
    for flavor, count in (("large", 1), ("small", 5), ("large", 3)):
        state = tmp_path / "state.json"
        exported = run_berth("state", "export", "--url", service.url, "--output", str(state))
        assert exported.returncode == 0, exported.stderr
        words = ["server", "create", "x", "--flavor", flavor, "--count", str(count), "--dry-run"]
        tried = run_berth(*words, "--json", "--url", service.url)
        assert tried.returncode == 0, tried.stderr
        uuid = service.create(flavor, f"then-{flavor}-{count}", count=count)
        service.wait_for_status(uuid, "ACTIVE")
        request_id = service.get(f"/berth/v1/instances/{uuid}")["request_id"]
        decision = service.get(f"/berth/v1/decisions/{request_id}")
        flavors = {one["flavor_id"]: one for one in json.loads(state.read_text())["flavors"]}
        request = tmp_path / "request.json"
        request.write_text(
            json.dumps({"request_id": request_id, "count": count, "flavor": flavors[flavor]})
        )
        decided = run_berth("decide", "--state", str(state), "--request", str(request), "--json")
        assert decided.returncode == 0, decided.stderr
        offline = json.loads(decided.stdout)
        assert _choices(offline["decision"]) == _choices(decision)
        found = json.loads(tried.stdout)["counterfactuals"]
        assert found
        assert found == offline["instances"][0]["counterfactuals"]


def test_a_dry_run_claims_nothing(processes: Processes, service: Service, tmp_path: Path) -> None:
    """`POST /berth/v1/decide` returns the placements of a create and leaves the fleet unchanged."""
    address = service.url.removeprefix("http://")
    part = processes.start(
        "up", "--listen", address, "--data", str(tmp_path / "data"), "--fake-hosts", "3"
    )
    service.wait_until(lambda status: status["hosts"]["total"] == 3, part)
    service.flavor("small", vcpus=2, ram=2048)
    before = service.get("/berth/v1/capacity", flavor="small")
    body = {"server": {"name": "x", "flavorRef": "small", "networks": "none", "max_count": 3}}
    answer = httpx.post(f"{service.url}/berth/v1/decide", json=body, trust_env=False).json()
    assert len(answer["placements"]) == 3
    assert service.get("/berth/v1/capacity", flavor="small") == before
