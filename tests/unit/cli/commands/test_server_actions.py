"""`berth server start` and the other actions, with a simulated cloud."""

import json
import time

import pytest

from tests.unit.cli.cloud import UUID, Cloud, Json
from tests.unit.cli.conftest import Run

SERVER = UUID.format(1)
PATH = f"/v2.1/servers/{SERVER}"
TASK = "OS-EXT-STS:task_state"


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace sleeping, so that waiting takes no time."""

    def sleep(_: float) -> None:
        """Return immediately."""

    monkeypatch.setattr(time, "sleep", sleep)


@pytest.fixture
def staffed(cloud: Cloud) -> Cloud:
    """Return a cloud with a server `web` that accepts any action."""
    cloud.add_server("web", image={"id": "image-1"})
    cloud.add_flavor("large")
    cloud.fixed[("POST", f"{PATH}/action")] = (202, None)
    cloud.fixed[("GET", f"{PATH}/os-instance-actions")] = (200, {"instanceActions": []})
    return cloud


AUTO = {"host": None, "block_migration": "auto"}
ASKED: list[tuple[list[str], Json]] = [
    (["start"], {"os-start": None}),
    (["stop"], {"os-stop": None}),
    (["reboot"], {"reboot": {"type": "SOFT"}}),
    (["reboot", "--hard"], {"reboot": {"type": "HARD"}}),
    (["pause"], {"pause": None}),
    (["unpause"], {"unpause": None}),
    (["suspend"], {"suspend": None}),
    (["resume"], {"resume": None}),
    (["resize", "--flavor", "large"], {"resize": {"flavorRef": "id-large"}}),
    (["confirm"], {"confirmResize": None}),
    (["revert"], {"revertResize": None}),
    (["migrate"], {"migrate": None}),
    (["migrate", "--host", "h"], {"migrate": {"host": "h"}}),
    (["live-migrate"], {"os-migrateLive": AUTO}),
    (["live-migrate", "--host", "h"], {"os-migrateLive": {**AUTO, "host": "h"}}),
    (["evacuate"], {"evacuate": {}}),
    (["evacuate", "--host", "h"], {"evacuate": {"host": "h"}}),
    (["rebuild"], {"rebuild": {"imageRef": "image-1"}}),
    (["rebuild", "--image", "image-2"], {"rebuild": {"imageRef": "image-2"}}),
    (["rescue"], {"rescue": None}),
    (["rescue", "--image", "tools"], {"rescue": {"rescue_image_ref": "tools"}}),
    (["unrescue"], {"unrescue": None}),
    (["restore"], {"restore": None}),
    (["delete", "--force"], {"forceDelete": None}),
    (["shelve"], {"shelve": None}),
    (["offload"], {"shelveOffload": None}),
    (["unshelve"], {"unshelve": None}),
    (["unshelve", "--az", "az1"], {"unshelve": {"availability_zone": "az1"}}),
    (["unshelve", "--az", ""], {"unshelve": {"availability_zone": None}}),
    (["unshelve", "--host", "h"], {"unshelve": {"host": "h"}}),
    (["lock"], {"lock": None}),
    (["lock", "--reason", "why"], {"lock": {"locked_reason": "why"}}),
    (["unlock"], {"unlock": None}),
    (["reset-state"], {"os-resetState": {"state": "error"}}),
    (["reset-state", "--state", "active"], {"os-resetState": {"state": "active"}}),
]


@pytest.mark.parametrize(("words", "body"), ASKED)
def test_each_command_is_an_action(run: Run, staffed: Cloud, words: list[str], body: Json) -> None:
    """The server is found by its name, and a successful action prints nothing."""
    name, *options = words
    ended = run("server", name, "web", *options)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert (staffed.last.url.path, staffed.body()) == (f"{PATH}/action", body)


@pytest.mark.parametrize("words", [["restore"], ["delete", "--force"]])
def test_a_server_that_is_kept_is_found_by_its_name(
    run: Run, staffed: Cloud, words: list[str]
) -> None:
    """Other commands do not find a deleted server by its name."""
    staffed.servers[SERVER]["status"] = "SOFT_DELETED"
    name, *options = words
    assert run("server", name, "web", *options).code == 0
    assert staffed.last.url.path == f"{PATH}/action"
    asked = [request.url.params.get("status") for request in staffed.asked]
    assert "SOFT_DELETED" in asked


@pytest.mark.parametrize(("words", "version"), [([], "2.94"), (["--stopped"], "2.96")])
def test_evacuated_servers_run_again_unless_told_otherwise(
    run: Run, staffed: Cloud, words: list[str], version: str
) -> None:
    """The microversion says whether an evacuated server is started."""
    assert run("server", "evacuate", "web", *words).code == 0
    assert staffed.last.headers["OpenStack-API-Version"] == f"compute {version}"


@pytest.mark.parametrize(("words", "force"), [([], None), (["--force"], "true")])
def test_an_evacuation_is_forced_on_request(
    run: Run, staffed: Cloud, words: list[str], force: str | None
) -> None:
    """Only `--force` evacuates although too many hosts fell silent at once."""
    assert run("server", "evacuate", "web", *words).code == 0
    assert staffed.last.headers.get("X-Berth-Force") == force


def test_several_servers_at_once(run: Run, staffed: Cloud) -> None:
    """All servers are looked up before any action is sent."""
    assert run("server", "stop", "web", "none").code == 4
    assert all(one.method == "GET" for one in staffed.asked)
    other = staffed.add_server("db")
    staffed.fixed[("POST", f"/v2.1/servers/{other['id']}/action")] = (202, None)
    assert run("server", "stop", "web", "db").code == 0
    assert sum(one.method == "POST" for one in staffed.asked) == 2


def test_waiting_ends_when_nothing_goes_on(run: Run, staffed: Cloud) -> None:
    """The wait ends when the server has no task, and its state is printed."""
    staffed.servers[SERVER] |= {"status": "BUILD", TASK: "powering-off"}
    staffed.builds = {"status": "SHUTOFF", TASK: None, "OS-EXT-SRV-ATTR:host": "h1"}
    ended = run("server", "stop", SERVER, "--wait")
    assert (ended.code, ended.out) == (0, f"{SERVER} web is SHUTOFF on h1\n")


def test_waiting_does_not_last_for_ever(run: Run, staffed: Cloud) -> None:
    """After the timeout, the error names the task that is still running."""
    staffed.servers[SERVER][TASK] = "suspending"
    ended = run("server", "suspend", "web", "--wait", "--timeout", "0")
    assert ended.code == 1
    assert f"{SERVER} is still suspending; wait longer with --timeout" in ended.err


def test_what_failed_is_told(run: Run, staffed: Cloud) -> None:
    """With --wait, a failure in the action history ends the command with 1."""
    failed = {"action": "resize", "message": "Error"}
    staffed.fixed[("GET", f"{PATH}/os-instance-actions")] = (200, {"instanceActions": [failed]})
    assert run("server", "resize", "web", "--flavor", "large").code == 0
    ended = run("server", "resize", "web", "--flavor", "large", "--wait")
    assert ended.code == 1
    assert "resize failed, and server" in ended.err
    assert f"berth explain {SERVER}" in ended.err


def test_a_refusal_is_passed_on(run: Run, staffed: Cloud) -> None:
    """A conflict ends with 6 and prints the service's message."""
    told = {"conflictingRequest": {"code": 409, "message": "Cannot 'start' it"}}
    staffed.fixed[("POST", f"{PATH}/action")] = (409, told)
    ended = run("server", "start", "web")
    assert ended.code == 6
    assert "Cannot 'start' it" in ended.err


def test_a_server_without_image_needs_one(run: Run, staffed: Cloud) -> None:
    """A rebuild without an image ends with 2, and nothing is sent."""
    staffed.servers[SERVER]["image"] = ""
    assert run("server", "rebuild", "web").code == 2
    assert staffed.last.method == "GET"


def test_the_history_with_its_steps(run: Run, staffed: Cloud) -> None:
    """Each action is followed by its events, in text and in JSON."""
    action: Json = {
        "action": "stop",
        "request_id": "req-1",
        "start_time": "2026-01-01T00:00:00",
        "user_id": "alice",
        "message": None,
    }
    step = {"event": "compute_stop_instance", "finish_time": "t", "host": "h1", "result": "Success"}
    path = f"{PATH}/os-instance-actions"
    staffed.fixed[("GET", path)] = (200, {"instanceActions": [action]})
    whole = {"instanceAction": action | {"events": [step]}}
    staffed.fixed[("GET", f"{path}/req-1")] = (200, whole)
    lines = run("server", "actions", "web").out.splitlines()
    assert [line.split()[0] for line in lines if line.strip()][-2:] == [
        "stop",
        "compute_stop_instance",
    ]
    assert json.loads(run("server", "actions", "web", "--json").out)["actions"][0]["events"] == [
        step
    ]


@pytest.mark.parametrize(
    ("words", "method", "body", "force"),
    [
        ([], "GET", None, None),
        (["--set", "east"], "PUT", {"availability_zone": "east"}, None),
        (["--unset", "--force"], "PUT", {"availability_zone": None}, "true"),
    ],
)
def test_the_zone_of_a_server_is_shown_or_changed(
    run: Run, staffed: Cloud, words: list[str], method: str, body: Json | None, force: str | None
) -> None:
    """Without options it is shown."""
    path = f"/berth/v1/instances/{SERVER}/zone"
    zone = {
        "instance_uuid": SERVER,
        "availability_zone": "east",
        "host": "h1",
        "host_availability_zone": "west",
    }
    staffed.fixed[(method, path)] = (200, zone)
    ended = run("server", "zone", "web", *words)
    assert (ended.code, "east" in ended.out, "west" in ended.out) == (0, True, True)
    last = staffed.last
    assert (last.method, last.url.path) == (method, path)
    assert last.headers.get("X-Berth-Force") == force
    if body is not None:
        assert staffed.body() == body
    assert json.loads(run("server", "zone", "web", "--json", *words).out) == zone


def test_a_zone_is_either_set_or_unset(run: Run, staffed: Cloud) -> None:
    """Both at once end with 2, and nothing is sent."""
    assert run("server", "zone", "web", "--set", "east", "--unset").code == 2
    assert not staffed.asked
