"""Actions that the host of a server carries out alone, over HTTP."""

import pytest

from berth.domain.compute.instance import Status, Task
from tests.unit.api.compute.lifecycle.conftest import MakeStaffed
from tests.unit.api.compute.lifecycle.staffed import OTHER, OWNER, Staffed

STEPS = [
    (["os-stop"], ("SHUTOFF", "stopped", 4)),
    (["os-stop", "os-start"], ("ACTIVE", "active", 1)),
    (["pause"], ("PAUSED", "paused", 3)),
    (["pause", "unpause"], ("ACTIVE", "active", 1)),
    (["suspend"], ("SUSPENDED", "suspended", 4)),
    (["suspend", "resume"], ("ACTIVE", "active", 1)),
    (["shelve"], ("SHELVED_OFFLOADED", "shelved_offloaded", 4)),
    (["shelve", "unshelve"], ("ACTIVE", "active", 1)),
]
TASKS = {
    "os-stop": "powering-off",
    "pause": "pausing",
    "suspend": "suspending",
    "shelve": "shelving",
    "shelveOffload": "shelving_offloading",
}


@pytest.mark.parametrize(("actions", "states"), STEPS)
async def test_a_step_is_202_and_then_done(
    cloud: Staffed, actions: list[str], states: tuple[str, str, int]
) -> None:
    """The owner can request each action, and the task is shown while it runs."""
    uuid = await cloud.built()
    for action in actions:
        answer = await cloud.act(uuid, action, token=OWNER)
        assert (answer.status, answer.body) == (202, None)
        if action in TASKS:
            assert (await cloud.states(uuid))[3] == TASKS[action]
        await cloud.work()
    assert await cloud.states(uuid) == (*states, None)


@pytest.mark.parametrize(
    ("kind", "shown"), [("SOFT", "REBOOT"), ("Hard", "HARD_REBOOT"), ("hard", "HARD_REBOOT")]
)
async def test_a_reboot_is_soft_or_hard(cloud: Staffed, kind: str, shown: str) -> None:
    """The status shows the kind of reboot."""
    uuid = await cloud.built()
    assert (await cloud.act(uuid, "reboot", {"type": kind}, token=OWNER)).status == 202
    assert (await cloud.states(uuid))[0] == shown
    await cloud.work()
    assert (await cloud.states(uuid))[0] == "ACTIVE"


async def test_a_hard_reboot_starts_what_is_off(cloud: Staffed) -> None:
    """A stopped server can be rebooted hard but not soft, and its status stays SHUTOFF."""
    uuid = await cloud.built()
    await cloud.done(uuid, "os-stop")
    assert (await cloud.act(uuid, "reboot", {"type": "SOFT"})).status == 409
    assert (await cloud.act(uuid, "reboot", {"type": "HARD"})).status == 202
    assert await cloud.states(uuid) == ("SHUTOFF", "stopped", 4, "rebooting_hard")
    await cloud.work()
    assert (await cloud.states(uuid))[0] == "ACTIVE"


async def test_a_shelved_server_may_keep_its_host(make_staffed: MakeStaffed) -> None:
    """Without automatic offloading, an administrator must offload the server."""
    cloud = await make_staffed(offloads=False)
    uuid = await cloud.built()
    await cloud.done(uuid, "shelve")
    assert await cloud.states(uuid) == ("SHELVED", "shelved", 4, None)
    assert (await cloud.act(uuid, "shelveOffload", token=OWNER)).status == 403
    assert (await cloud.act(uuid, "shelveOffload")).status == 202
    await cloud.work()
    assert (await cloud.states(uuid))[0] == "SHELVED_OFFLOADED"
    assert (await cloud.show(uuid))["OS-EXT-SRV-ATTR:host"] is None


NOT_WHEN_ACTIVE = ["os-start", "unpause", "resume", "unshelve", "confirmResize", "revertResize"]
NAMES = {"os-start": "start"}


@pytest.mark.parametrize("action", NOT_WHEN_ACTIVE)
async def test_the_wrong_state_is_409_in_novas_words(cloud: Staffed, action: str) -> None:
    """The message names the action, the server and its vm_state."""
    uuid = await cloud.built()
    answer = await cloud.act(uuid, action, token=OWNER)
    name = NAMES.get(action, action)
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"] == (
        f"Cannot '{name}' instance {uuid} while it is in vm_state active"
    )


async def test_whatever_goes_on_keeps_others_away(cloud: Staffed) -> None:
    """An action during a task gets 409 with the name of the task."""
    uuid = await cloud.built()
    await cloud.act(uuid, "os-stop")
    answer = await cloud.act(uuid, "pause")
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"] == (
        f"Cannot 'pause' instance {uuid} while it is in task_state powering-off"
    )


@pytest.mark.parametrize("args", [None, {}, {"any": 1}, "word", 7])
async def test_steps_take_any_arguments(cloud: Staffed, args: object) -> None:
    """Arguments are ignored, as in Nova."""
    uuid = await cloud.built()
    assert (await cloud.act(uuid, "pause", args)).status == 202


@pytest.mark.parametrize(
    ("action", "args"),
    [
        ("reboot", None),
        ("reboot", {}),
        ("reboot", {"type": "WARM"}),
        ("reboot", {"type": "sOFT"}),
        ("reboot", {"type": "SOFT", "now": True}),
        ("os-resetState", None),
        ("os-resetState", {"state": "paused"}),
        ("lock", {"locked_reason": ""}),
        ("lock", {"locked_reason": "x" * 256}),
        ("lock", {"reason": "x"}),
    ],
)
async def test_wrong_arguments_are_400(cloud: Staffed, action: str, args: object) -> None:
    """The message begins with the name of the action."""
    uuid = await cloud.built()
    answer = await cloud.act(uuid, action, args)
    assert answer.status == 400
    assert answer.body["badRequest"]["message"].startswith(action)


async def test_others_do_not_even_see_it(cloud: Staffed) -> None:
    """Actions on another project's server get 404 and have no effect."""
    uuid = await cloud.built()
    for action in ("os-stop", "migrate", "lock", "rebuild"):
        assert (await cloud.act(uuid, action, {}, token=OTHER)).status == 404
    assert (await cloud.states(uuid))[3] is None


async def test_a_server_without_a_host_is_not_ready(cloud: Staffed) -> None:
    """An action on a server without a host gets 409."""
    uuid = await cloud.server()
    await cloud.force(uuid, status=Status.ERROR, task=None, host=None, node=None)
    answer = await cloud.act(uuid, "os-stop")
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"] == f"Instance {uuid} is not ready"


@pytest.mark.parametrize(("state", "status"), [("error", "ERROR"), ("active", "ACTIVE")])
async def test_an_administrator_may_say_what_it_is(cloud: Staffed, state: str, status: str) -> None:
    """Resetting the state ends the task; only administrators can do it."""
    uuid = await cloud.built()
    await cloud.force(uuid, task=Task.SUSPENDING)
    assert (await cloud.act(uuid, "os-resetState", {"state": state}, token=OWNER)).status == 403
    assert (await cloud.act(uuid, "os-resetState", {"state": state})).status == 202
    assert (await cloud.states(uuid))[::3] == (status, None)
