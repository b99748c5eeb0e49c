"""`--json`: every command prints one JSON document of what it shows or has changed."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.cli.cloud import UUID, Cloud
from tests.unit.cli.command_tree import leaves
from tests.unit.cli.conftest import Run

RUNS: Final = "it runs until it is stopped, and its output is its log"
WITHOUT_JSON: Final = {
    "up": RUNS,
    "api": RUNS,
    "placement": RUNS,
    "scheduler": RUNS,
    "agent": RUNS,
    "completion": "it prints a script for a shell",
    "audit-log export": "it prints lines of JSON",
    "state export": "it prints a JSON document",
}
"""The commands without the option, each with the reason."""

ACTIONS: Final = (
    ("start",),
    ("stop",),
    ("reboot", "--hard"),
    ("pause",),
    ("unpause",),
    ("suspend",),
    ("resume",),
    ("resize", "--flavor", "small"),
    ("confirm",),
    ("revert",),
    ("rebuild", "--image", "i"),
    ("rescue",),
    ("unrescue",),
    ("restore",),
    ("shelve",),
    ("unshelve",),
    ("offload",),
    ("migrate",),
    ("live-migrate",),
    ("evacuate",),
    ("lock", "--reason", "r"),
    ("unlock",),
    ("reset-state",),
)


def printed(run: Run, *words: object) -> Any:  # noqa: ANN401 - a JSON document
    """Run a command with `--json`, which must succeed, and return the document that it prints."""
    ended = run("--json", *words)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_every_command_has_json_or_a_reason() -> None:
    """A new command cannot lack the option by mistake."""
    without = {
        " ".join(path)
        for path, command in leaves()
        if all(one.name != "as_json" for one in command.params)
    }
    assert without == set(WITHOUT_JSON)


@pytest.mark.parametrize("words", ACTIONS, ids=" ".join)
def test_an_action_prints_the_servers(run: Run, cloud: Cloud, words: tuple[str, ...]) -> None:
    """The servers are as they are after the request."""
    cloud.add_flavor("small")
    cloud.add_server("a")
    cloud.fixed["POST", f"/v2.1/servers/{UUID.format(1)}/action"] = (202, {})
    name, *options = words
    assert printed(run, "server", name, "a", *options) == {"servers": list(cloud.servers.values())}


def test_a_failed_action_has_its_error(run: Run, cloud: Cloud) -> None:
    """With --wait, the document also has the servers whose action failed."""
    for name in ("a", "b"):
        uuid = cloud.add_server(name)["id"]
        cloud.fixed["POST", f"/v2.1/servers/{uuid}/action"] = (202, {})
        message = "Error" if name == "a" else None
        cloud.fixed["GET", f"/v2.1/servers/{uuid}/os-instance-actions"] = (
            200,
            {"instanceActions": [{"action": "stop", "message": message}]},
        )
    ended = run("server", "stop", "a", "b", "--wait", "--json")
    assert ended.code == 1
    first, second = json.loads(ended.out)["servers"]
    assert "stop failed" in first["error"]
    assert "error" not in second
    assert "stop failed" in ended.err


def test_a_deletion_prints_what_is_gone(run: Run, cloud: Cloud) -> None:
    """Every command that deletes has the same form."""
    server, flavor = cloud.add_server("s"), cloud.add_flavor("f")
    service = cloud.add_service("h")
    group = {"id": UUID.format(7), "name": "g"}
    cloud.groups[group["id"]] = group
    cloud.aggregates["1"] = {"id": 1, "name": "agg"}
    cloud.images["i"] = {"id": "i", "name": "image"}
    cloud.fixed["GET", "/zones/detail"] = (200, {"zones": [{"id": 3, "name": "west"}]})
    cloud.fixed["DELETE", "/zones/3"] = (200, {})

    def deleted(*words: str) -> list[dict[str, object]]:
        document = printed(run, *words)
        assert set(document) == {"deleted"}
        found: list[dict[str, object]] = document["deleted"]
        return found

    assert deleted("server", "delete", "s", "--wait") == [{"id": server["id"], "name": "s"}]
    assert deleted("flavor", "delete", "f") == [{"id": flavor["id"], "name": "f"}]
    assert deleted("service", "delete", "h") == [{"id": service["id"], "host": "h"}]
    assert deleted("group", "delete", "g") == [group]
    assert deleted("aggregate", "delete", "agg") == [{"id": 1, "name": "agg"}]
    assert deleted("image", "delete", "image") == [{"id": "i", "name": "image"}]
    assert deleted("zone", "remove", "west") == [{"id": 3, "name": "west"}]


def test_an_image_of_a_server_is_printed(run: Run, cloud: Cloud) -> None:
    """A backup that is deleted at once is null."""
    uuid = cloud.add_server("s")["id"]
    cloud.images["i"] = {"id": "i", "name": "image", "status": "queued"}
    path = f"/v2.1/servers/{uuid}/action"
    cloud.fixed["POST", path] = (202, {"image_id": "i"})
    made = printed(run, "server", "image", "s", "image")
    assert made == {"server": uuid, "image": cloud.images["i"]}
    cloud.fixed["POST", path] = (202, {})
    made = printed(run, "server", "backup", "s", "b", "--rotation", 0)
    assert made == {"server": uuid, "image": None}


def test_an_evacuation_prints_each_server(run: Run, cloud: Cloud) -> None:
    """A server that is not evacuated has an error."""
    service = {"id": "1", "host": "h", "state": "down"}
    cloud.fixed["GET", "/v2.1/os-services"] = (200, {"services": [service]})
    first, second = cloud.add_server("a"), cloud.add_server("b")
    cloud.fixed["POST", f"/v2.1/servers/{first['id']}/action"] = (200, {})
    fault = {"conflictingRequest": {"message": "locked"}}
    cloud.fixed["POST", f"/v2.1/servers/{second['id']}/action"] = (409, fault)
    ended = run("host", "evacuate", "h", "--json")
    assert ended.code == 1
    document = json.loads(ended.out)
    assert document["host"] == "h"
    errors = {one["name"]: one.get("error", "") for one in document["servers"]}
    assert errors["a"] == ""
    assert "locked" in errors["b"]


def test_changes_of_hosts_and_quotas_are_printed(run: Run, cloud: Cloud) -> None:
    """Each object names what was changed and its state."""
    cloud.fixed["DELETE", "/berth/v1/hosts/h/maintenance"] = (204, "")
    cloud.fixed["POST", "/berth/v1/host-keys/h/rotate"] = (202, {})
    cloud.fixed["DELETE", "/berth/v1/host-keys/h"] = (204, "")
    limits = dict.fromkeys(("instances", "cores", "ram", "server_groups", "key_pairs"), -1)
    limits |= {"server_group_members": 10, "metadata_items": 128}
    cloud.fixed["DELETE", "/v2.1/os-quota-sets/p"] = (202, "")
    cloud.fixed["GET", "/v2.1/os-quota-sets/p"] = (200, {"quota_set": {**limits, "other": 1}})
    assert printed(run, "host", "resume", "h") == {"host": "h", "status": "enabled"}
    assert printed(run, "host", "rotate-key", "h") == {"host": "h", "state": "rotating"}
    assert printed(run, "host", "revoke-key", "h") == {"host": "h", "state": "revoked"}
    assert printed(run, "quota", "unset", "p") == limits
    commands = printed(run, "host", "broker-permissions", "h")["commands"]
    assert commands[0].startswith("rabbitmqctl")


def test_commands_for_key_files_print_the_file(run: Run, tmp_path: Path) -> None:
    """Private keys are never printed; public ones are."""
    tokens, bus, zone = (tmp_path / name for name in ("tokens", "bus", "zone"))
    made = printed(run, "token-keys", "rotate", "--file", tokens)
    assert made == {"file": str(tokens), "keys": 1}
    assert printed(run, "bus-keys", "rotate", "--file", bus) == {"file": str(bus)}
    created = printed(run, "zone", "keys", "create", "--file", zone)
    assert created == printed(run, "zone", "keys", "public", "--file", zone)
    keys = created["public_keys"]
    assert len(keys) == 2
    parents = tmp_path / "parents"
    words = ("zone", "parents", "add", "west", *keys, "--file", parents)
    assert printed(run, *words) == {"name": "west", "keys": keys}
    removed = printed(run, "zone", "parents", "remove", "west", "--file", parents)
    assert removed == {"deleted": [{"name": "west"}]}


def test_commands_for_users_print_the_user(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object is that of `berth user list`, without the hash."""
    monkeypatch.setattr("berth.cli.commands.users._read_password", lambda **_: b"p")
    file = ("--htpasswd", tmp_path / "users", "--password-stdin")
    ann = printed(run, "user", "add", "ann", "--project", "web", *file)
    assert (ann["user"], ann["project"]) == ("ann", "web")
    assert printed(run, "user", "password", "ann", *file) == ann
    assert printed(run, "user", "list", *file[:2]) == {"users": [ann]}
    assert printed(run, "user", "remove", "ann", *file[:2]) == {"deleted": [{"user": "ann"}]}


def test_the_schema_of_the_ledger_is_printed(
    run: Run, tmp_path: Path, fresh_sqlite_url: str
) -> None:
    """A ledger without tables has none, and a new one has that of the program."""
    assert printed(run, "ledger", "show", "--data", tmp_path)["ledger"] is None
    found = printed(run, "db", "show", "--ledger", fresh_sqlite_url)
    assert found["ledger"]["schema"] == found["program"]["schema"]
    migrated = run("ledger", "migrate", "--ledger", fresh_sqlite_url, "--json").out
    # The library for migrations may log before it.
    assert json.loads(migrated[migrated.index("{") :]) == found
