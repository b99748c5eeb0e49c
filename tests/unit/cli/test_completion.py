"""Completion in shells: scripts, commands, options, values and names."""

from pathlib import Path

import click
import httpx
import pytest
from click.shell_completion import ShellComplete

from berth.cli.command import CONNECTION_OPTIONS, Session
from berth.cli.commands.completion import SHELLS
from berth.cli.completed_names import NameOf
from berth.cli.main import berth
from tests.unit.cli.cloud import Cloud
from tests.unit.cli.command_tree import leaves
from tests.unit.cli.conftest import Run


def completed(*words: str) -> list[str]:
    """Return what the last of the words may become."""
    shell = ShellComplete(berth, {"obj": Session()}, "berth", "_BERTH_COMPLETE")
    *before, incomplete = words
    return [one.value for one in shell.get_completions(before, incomplete)]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed(run: Run, shell: str) -> None:
    """The script calls `berth` with the variable of the shell."""
    ended = run("completion", shell)
    assert ended.code == 0
    assert f"_BERTH_COMPLETE={shell}_complete" in ended.out.replace("env ", "")


def test_commands_options_and_values_are_completed() -> None:
    """Options of all commands may precede the command here, too."""
    assert completed("serv") == ["server", "service"]
    assert completed("--json", "server", "sta") == ["start"]
    assert completed("server", "list", "--stat") == ["--status"]
    assert completed("server", "list", "--status", "act") == ["ACTIVE"]
    assert set(CONNECTION_OPTIONS) <= set(completed("server", "list", "--"))
    assert completed("completion", "z") == ["zsh"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("server", "stop", "w"), ["web-1", "web-2"]),
        (("server", "create", "x", "--flavor", ""), ["small"]),
        (("flavor", "show", ""), ["small"]),
        (("image", "delete", "d"), ["debian"]),
        (("group", "show", ""), ["replicas"]),
        (("aggregate", "set", ""), ["ssd"]),
        (("host", "show", "rack"), ["rack1"]),
        (("host", "drain", "rack"), ["rack1"]),
        (("server", "migrate", "web-1", "--host", ""), ["rack1"]),
        (("--url", "http://other:1", "server", "stop", "web-2"), ["web-2"]),
    ],
)
def test_names_are_completed(cloud: Cloud, words: tuple[str, ...], names: list[str]) -> None:
    """Arguments and options that take the name of a thing complete those that exist."""
    cloud.add_server("web-1")
    cloud.add_server("web-2")
    cloud.add_flavor("small")
    cloud.fixed["GET", "/v2.1/flavors"] = (200, {"flavors": [{"name": "small"}]})
    cloud.images["1"] = {"id": "1", "name": "debian"}
    cloud.groups["1"] = {"id": "1", "name": "replicas"}
    cloud.aggregates["1"] = {"id": 1, "name": "ssd"}
    cloud.add_service("rack1")
    assert completed(*words) == names
    assert cloud.last.url.host == ("other" if "--url" in words else "127.0.0.1")


def test_every_argument_with_a_name_is_completed() -> None:
    """No command for a running Berth takes a server or host without completion."""
    nouns = {"server", "flavor", "image", "group", "aggregate", "host"}
    for path, command in leaves():
        options = {one.opts[0] for one in command.params}
        for one in command.params if "--url" in options else ():
            if isinstance(one, click.Argument) and one.name in nouns:
                assert isinstance(one.type, NameOf), path


@pytest.mark.parametrize("fault", [httpx.ConnectError("refused"), httpx.ReadTimeout("slow")])
def test_a_service_that_cannot_be_reached_gives_no_names(cloud: Cloud, fault: Exception) -> None:
    """Nothing is printed into the command line."""
    cloud.fails = fault
    assert completed("server", "stop", "") == []


def test_completion_never_asks_for_a_password(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither with a prompt nor with a command, which may open a window."""
    cloud.add_server("web")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setenv("BERTH_USER", "ann")
    assert completed("server", "stop", "") == []
    monkeypatch.setenv("BERTH_PASSWORD", "p")
    assert completed("server", "stop", "") == ["web"]
