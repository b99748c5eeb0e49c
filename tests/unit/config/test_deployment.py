"""The deployment files use existing commands and known settings."""

import json
import shlex
import tomllib
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest

from berth.cli.main import berth
from berth.config.api_settings import AuthMode
from berth.config.settings_reader import read_settings

DEPLOY = Path(__file__).parents[3] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
YAML: Any = import_module("yaml")  # PyYAML is installed with schemathesis and has no type hints
COMPOSE: Any = YAML.safe_load((DEPLOY / "compose" / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
COMMANDS = {
    name: one["command"]
    for name, one in SERVICES.items()
    if "command" in one and "entrypoint" not in one
}


def check_command(words: list[str]) -> None:
    """Check that a command and its options exist, without running it."""
    context = click.Context(berth)
    command: click.Command = berth
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    command.make_parser(click.Context(command)).parse_args(words)


class Unit(ConfigParser):
    """A parser of systemd units, which keeps the case of names."""

    def optionxform(self, optionstr: str) -> str:
        """Return the name unchanged."""
        return optionstr


def unit_of(path: Path) -> ConfigParser:
    """Return the parsed unit file."""
    unit = Unit(interpolation=None, strict=False)
    unit.read_string(path.read_text("utf-8"))
    return unit


def test_every_process_has_a_unit() -> None:
    """There are units for the agent, the API and the scheduler."""
    assert [path.stem for path in UNITS] == ["berth-agent", "berth-api", "berth-scheduler"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_what_there_is_with_few_rights(path: Path) -> None:
    """The command exists, and the unit has its own user and restricted rights."""
    service = unit_of(path)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).name == "berth"
    check_command(words)
    assert service["User"] == "berth"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert not service["CapabilityBoundingSet"]
    assert (service.get("KillMode") == "process") is (path.stem == "berth-agent")


def test_the_settings_are_known_and_hold_no_password() -> None:
    """The example settings can be read and contain no URLs with passwords."""
    settings = read_settings(DEPLOY / "berth.toml", {}, {})
    assert settings.auth.mode is AuthMode.IDENTITY
    assert settings.api.tls_certificate is not None
    for one in (settings, read_settings(DEPLOY / "agent.toml", {}, {})):
        assert one.ledger.url is None
        assert one.bus.url is None


def test_a_compute_host_needs_no_password() -> None:
    """The unit of the agent reads the settings of compute hosts only, and can replace its key."""
    unit = unit_of(DEPLOY / "systemd" / "berth-agent.service")["Service"]
    assert "EnvironmentFile" not in unit
    assert "--config /etc/berth/agent.toml" in unit["ExecStart"]
    agent = read_settings(DEPLOY / "agent.toml", {}, {}).agent
    assert str(agent.gateway_url).startswith("https://")
    assert agent.key_file.parent == Path("/var/lib") / unit["StateDirectory"]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_container_runs_what_there_is(name: str) -> None:
    """Each command of the compose file exists."""
    check_command(list(COMMANDS[name]))


def test_the_settings_of_containers_are_known() -> None:
    """The variables name existing settings, and the API is published on loopback only."""
    environ = COMPOSE["x-berth"]["environment"]
    settings = read_settings(None, environ, {})
    assert settings.ledger.url == environ["BERTH_LEDGER_URL"]
    assert settings.bus.url == environ["BERTH_BUS_URL"]
    assert SERVICES["api"]["ports"] == ["127.0.0.1:8774:8774"]


def test_agents_in_containers_know_only_the_gateway() -> None:
    """They share the network of the API, and have no address of the ledger and the broker."""
    for name in ("enroll", "agents"):
        assert SERVICES[name]["network_mode"] == "service:api"
        environ = SERVICES[name]["environment"]
        agent = read_settings(None, environ, {}).agent
        assert agent.gateway_url == f"http://{SERVICES['api']['ports'][0].rpartition(':')[0]}"
        assert sorted(environ) == ["BERTH_AGENT_GATEWAY_URL", "BERTH_AGENT_KEY_FILE"]


def test_the_compose_file_names_what_there_is() -> None:
    """Dependencies, volumes, ports and build files of the compose file exist."""
    for one in SERVICES.values():
        for name, wants in one.get("depends_on", {}).items():
            healthy = wants["condition"] == "service_healthy"
            assert ("healthcheck" in SERVICES[name]) is healthy
        for volume in one.get("volumes", ()):
            assert volume.partition(":")[0] in COMPOSE["volumes"]
        if "build" in one:
            context = (DEPLOY / "compose" / one["build"]["context"]).resolve()
            assert context / one["build"]["dockerfile"] == DEPLOY / "compose" / "Containerfile"
    listen = COMMANDS["api"][COMMANDS["api"].index("--listen") + 1]
    published = SERVICES["api"]["ports"][0].rpartition(":")[2]
    assert listen.rpartition(":")[2] == published
    hosts = {str(urlsplit(url).hostname) for url in COMPOSE["x-berth"]["environment"].values()}
    assert hosts == {"ledger", "broker"}
    assert hosts <= SERVICES.keys()


def test_the_image_holds_what_the_compose_file_needs() -> None:
    """The image has the required extras, runs as its own user and starts Berth."""
    lines = (DEPLOY / "compose" / "Containerfile").read_text("utf-8").replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in lines.splitlines() if line[:1].isupper()]
    assert [name for name, _ in steps] == [
        "FROM", "COPY", "RUN", "FROM", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT",
    ]  # fmt: skip
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text("utf-8"))["project"]
    build, base = (rest for name, rest in steps if name == "FROM")
    install, add_user = (rest for name, rest in steps if name == "RUN")
    told = dict(steps)
    oldest = project["requires-python"].removeprefix(">=")
    assert (build, base) == (f"python:{oldest} AS build", f"python:{oldest}-slim")
    assert "python -m venv /opt/berth" in install
    locked = (DEPLOY.parent / "requirements" / "extras.lock").read_text("utf-8")
    assert "-r /src/requirements/extras.lock" in install
    for extra in ("keystone", "rabbitmq", "telemetry"):
        for needed in project["optional-dependencies"][extra]:
            assert f"\n{needed.partition('>')[0]}==" in f"\n{locked}"
    assert add_user == (
        f"useradd --system --home-dir {told['WORKDIR']} --create-home {told['USER']}"
    )
    assert json.loads(told["ENTRYPOINT"]) == ["/opt/berth/bin/berth"]
