"""Tests for `berth explain` after a move that failed on every host."""

import re

import httpx
import pytest

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.cli.main import main
from berth.domain.compute.instance import Instance
from berth.services.servers.moves import MoveTarget
from tests.unit.api.cloud import Stack
from tests.unit.lifecycle.town import BIG, Town, caller, open_town


async def move(town: Town, instance: Instance, kind: str) -> None:
    """Begin a move, and wait until it has ended."""
    if kind == "resize":
        await town.operations.resize(instance.uuid, BIG, caller())
    elif kind == "migrate":
        await town.operations.migrate(instance.uuid, MoveTarget(), caller())
    else:
        await town.operations.live_migrate(instance.uuid, MoveTarget(), caller())
    await town.work()


@pytest.mark.parametrize("kind", ["resize", "migrate", "live migrate"])
async def test_a_failed_move_is_explained_by_server_and_by_request(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command shows the last decision with its refusal, and lists the earlier ones."""
    faults = DriverFaults(share={"fetch_disks": 1.0, "take_in": 1.0})
    town = await open_town(*(FakeHost(f"host-{n}", faults=faults) for n in (1, 2, 3)))
    vm = await town.create()
    await move(town, vm, kind)
    assert "No valid host" in (await town.action(vm)).message
    stack = Stack(ledger=town.ledger)
    decisions = "/berth/v1/decisions"
    paths = [f"{decisions}/{vm.uuid}", f"{decisions}?server={vm.uuid}"]
    paths.append(f"{decisions}/{caller().request_id}")
    answers = {path: await stack.ask("GET", path) for path in paths}

    def answer(request: httpx.Request) -> httpx.Response:
        found = answers[request.url.raw_path.decode()]
        return httpx.Response(found.status, json=found.body)

    real = httpx.Client
    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(
        httpx, "Client", lambda **options: real(**options | {"transport": transport})
    )
    for asked in (vm.uuid, caller().request_id):
        assert main(["explain", asked]) == 0
        said = capsys.readouterr().out
        assert re.match(rf"Request {caller().request_id}\S*/2: refused\n", said)
        assert "No valid host was found for 1 instance" in said
        # A server's earlier decisions, down to that on its creation, are listed.
        assert (vm.request_id in said) is (asked == vm.uuid)
