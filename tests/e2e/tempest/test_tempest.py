"""OpenStack Tempest against a Berth with simulated hosts; its results are those of the docs."""

import json
import os
import re
from collections.abc import Mapping
from configparser import ConfigParser
from pathlib import Path

import bcrypt
import httpx
import pytest

from tests.e2e.conftest import Processes
from tests.e2e.suite_runs import ROOT, check_installed, run_suite

PAGE = ROOT / "docs" / "reference" / "tempest.md"
PASSED_MIN = 400
TIMEOUT_S = 1500

_STATUSES = {"Failed": "fail", "Skipped": "skip", "Not run": "not run"}
_USERS = {
    "admin": ("admin", "admin"),
    "admin2": ("admin2", "admin"),
    "member": ("p1", "member"),
    "member2": ("p2", "member"),
    "reader": ("p1", "reader"),
    "reader2": ("p2", "reader"),
    "manager": ("p1", "manager"),
    "alt": ("p3", None),
    "alt2": ("p4", None),
    "alt3": ("p5", None),
}
"""The project and the role of each account that Tempest may use."""
_IMAGES = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")
_FLAVORS = {"42": (64, 1), "84": (128, 2)}
"""Memory in MiB and disk in GiB by the id of the flavor."""
_HOSTS = [
    {
        "name": f"fake-{number:05d}",
        "totals": {"VCPU": 32, "MEMORY_MB": 131_072, "DISK_GB": 2_000},
        # Some tests act while an image is being made.
        "faults": {"delay_s": {"store_image": 3.0}},
    }
    for number in range(4)
]
_ON = (
    "resize",
    "cold_migration",
    "live_migration",
    "block_migration_for_live_migration",
    "pause",
    "suspend",
    "shelve",
    "shelve_migrate",
    "console_output",
    "vnc_console",
    "disk_config",
    "config_drive",
    "hostname_fqdn_sanitization",
    "rescue",
    "snapshot",
    "personality",
    "enable_instance_password",
)
_OFF = (
    "change_password",
    "spice_console",
    "serial_console",
    "interface_attach",
    "stable_rescue",
    "metadata_service",
    "swap_volume",
    "volume_backed_live_migration",
    "volume_multiattach",
    "attach_encrypted_volume",
)
"""The features of `compute-feature-enabled` that Berth has, and those that it lacks."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S + 100)]


def documented() -> dict[str, str]:
    """Return the outcome of each test and class that the page lists, by its name."""
    found: dict[str, str] = {}
    status = None
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("#"):
            status = _STATUSES.get(line.lstrip("# ").partition(":")[0])
        elif status is not None and (named := re.match(r"- `([\w.]+)`", line)):
            name = f"tempest.{named[1]}"
            assert name not in found, f"the page lists {name} twice"
            found[name] = status
    return found


def disagreements(listed: Mapping[str, str], outcomes: Mapping[str, str]) -> dict[str, str]:
    """Return how the outcomes of tests differ from the list of those that do not pass.

    Args:
        listed: outcomes by the names of tests and of classes, which stand for all their tests.
        outcomes: `pass`, `fail` or `skip` by the name of the test.
    """
    found: dict[str, str] = {}
    for name, outcome in outcomes.items():
        expected = listed.get(name) or listed.get(_class(name)) or "pass"
        if outcome != expected:
            found[name] = f"{outcome}, but the page says {expected}"
    known = {*outcomes, *map(_class, outcomes)}
    for name, status in listed.items():
        if status != "not run" and name not in known:
            found[name] = "on the page, but Tempest has no such test"
    return found


def _class(name: str) -> str:
    return name.rpartition(".")[0]


def configure(folder: Path, url: str) -> Path:
    """Write the configuration of Tempest and its accounts, and return the former's path."""
    accounts = [
        {
            "username": user,
            "password": user,
            "project_name": project,
            "user_domain_name": "Default",
            "project_domain_name": "Default",
            "types": ["admin"] if role == "admin" else [],
            "roles": [] if role is None else [role],
        }
        for user, (project, role) in _USERS.items()
    ]
    # JSON is YAML.
    (folder / "accounts.yaml").write_text(json.dumps(accounts), "utf-8")
    config = ConfigParser()
    config.read_dict(
        {
            "DEFAULT": {"log_dir": str(folder), "log_file": "tempest.log"},
            "oslo_concurrency": {"lock_path": str(folder / "locks")},
            "auth": {
                "use_dynamic_credentials": "false",
                "test_accounts_file": str(folder / "accounts.yaml"),
                "admin_username": "admin",
                "admin_password": "admin",
                "admin_project_name": "admin",
                "admin_domain_name": "Default",
            },
            "identity": {"uri_v3": f"{url}/identity/v3", "region": "RegionOne"},
            "identity-feature-enabled": {
                "trust": "false",
                "api_extensions": "",
                "immutable_user_source": "true",
            },
            "service_available": dict.fromkeys(("neutron", "cinder", "swift", "horizon"), "false"),
            "validation": {"run_validation": "false"},
            "compute": {
                "image_ref": _IMAGES[0],
                "image_ref_alt": _IMAGES[1],
                "flavor_ref": "42",
                "flavor_ref_alt": "84",
                # The suite reads it as a float.
                "build_interval": "0.1",
                "build_timeout": "60",
                "min_compute_nodes": "4",
                "min_microversion": "2.1",
                "max_microversion": "latest",
                "shelved_offload_time": "0",
            },
            "placement": {"min_microversion": "1.0", "max_microversion": "latest"},
            "compute-feature-enabled": {
                "scheduler_enabled_filters": "all",
                **dict.fromkeys(_ON, "true"),
                **dict.fromkeys(_OFF, "false"),
            },
        }
    )
    path = folder / "tempest.conf"
    with path.open("w", encoding="utf-8") as file:
        config.write(file)
    return path


def start(processes: Processes) -> str:
    """Start a Berth with accounts, images, flavors and quotas, and return its address."""
    folder = processes.folder
    hashes = {user: bcrypt.hashpw(user.encode(), bcrypt.gensalt(4)).decode() for user in _USERS}
    lines = [f"{user}:{hashes[user]} # project={_USERS[user][0]}\n" for user in _USERS]
    (folder / "users").write_text("".join(lines), "utf-8")
    images = [{"image_id": one, "name": f"image-{one[0]}"} for one in _IMAGES]
    (folder / "images.json").write_text(json.dumps(images), "utf-8")
    # This page stands in for that of noVNC; Tempest checks only that it mentions noVNC and has a
    # script, and speaks RFB itself.
    page = folder / "novnc" / "vnc_lite.html"
    page.parent.mkdir()
    page.write_text("<html><script>// noVNC</script></html>", "utf-8")
    (folder / "fleet.json").write_text(json.dumps(_HOSTS), "utf-8")
    words = ["up", "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    words += ["--auth", "identity", "--htpasswd", "users", "--images", "images.json"]
    environment = {name: one for name, one in os.environ.items() if not name.startswith("BERTH_")}
    admins = ",".join(user for user, (_, role) in _USERS.items() if role == "admin")
    environment["BERTH_AGENT_FLEET"] = "fleet.json"
    environment |= {"BERTH_AUTH_ADMINS": admins, "BERTH_CONSOLE_NOVNC_DIR": str(page.parent)}
    part = processes.start(*words, environment=environment)
    part.wait_for_log("Berth listens on")
    listens = re.search(r"Berth listens on (http://\S+)\s", part.log.read_text("utf-8"))
    assert listens is not None
    with httpx.Client(base_url=listens[1], auth=("admin", "admin"), trust_env=False) as client:
        for flavor_id, (ram, disk) in _FLAVORS.items():
            flavor = {"id": flavor_id, "name": f"m{flavor_id}", "ram": ram, "disk": disk}
            body = {"flavor": {**flavor, "vcpus": 1}}
            client.post("/v2.1/flavors", json=body).raise_for_status()
        # Tests of what exceeds a quota need one.
        limits = {"quota_class_set": {"instances": 40, "cores": 40, "ram": 51_200}}
        client.put("/v2.1/os-quota-class-sets/default", json=limits).raise_for_status()
    return listens[1]


def test_a_disagreement_is_found() -> None:
    """An unlisted failure, a listed test that passes and an unknown name are disagreements."""
    listed = {"t.A": "skip", "t.B.test_1": "fail", "t.B.test_3": "not run"}
    agreed = {
        "t.A.test_1": "skip",
        "t.A.test_2": "skip",
        "t.B.test_1": "fail",
        "t.B.test_2": "pass",
    }
    assert disagreements(listed, agreed) == {}
    for name, outcome in (
        ("t.A.test_1", "pass"),
        ("t.A.test_1", "fail"),
        ("t.B.test_1", "pass"),
        ("t.B.test_2", "fail"),
        ("t.B.test_3", "pass"),
    ):
        assert [*disagreements(listed, {**agreed, name: outcome})] == [name]
    assert [*disagreements({**listed, "t.C": "fail"}, agreed)] == ["t.C"]


def test_tempest_passes_except_where_the_page_says_why(
    processes: Processes, tmp_path: Path
) -> None:
    """Each of Tempest's tests passes, or the page lists it with its outcome and the reason."""
    check_installed("tempest")
    listed = documented()
    conf = configure(tmp_path, start(processes))
    excluded = [name for name, status in listed.items() if status == "not run"]
    results = tmp_path / "results.json"
    run_suite("tempest", str(conf), str(results), *excluded, timeout_s=TIMEOUT_S)
    found = json.loads(results.read_text("utf-8"))
    outcomes = {name: result[0] for name, result in found.items()}
    wrong = [
        f"{name}: {text}\n{found.get(name, ['', ''])[1]}"
        for name, text in disagreements(listed, outcomes).items()
    ]
    assert not wrong, "\n\n".join([f"{len(wrong)} results differ from {PAGE.name}", *wrong])
    assert sum(outcome == "pass" for outcome in outcomes.values()) >= PASSED_MIN
