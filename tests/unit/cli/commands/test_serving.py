"""Server commands: options become settings, and an invalid option starts nothing."""

from pathlib import Path

import pytest

from berth.app import placement, processes
from berth.config.api_settings import AuthMode
from berth.config.settings import Settings
from tests.unit.cli.conftest import Run


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Settings]]:
    """Return the list of servers that would have run, with their settings."""
    found: list[tuple[str, Settings]] = []
    for name in ("run_up", "run_api", "run_scheduler", "run_agent"):
        monkeypatch.setattr(processes, name, lambda one, name=name: found.append((name, one)))
    monkeypatch.setattr(
        placement, "run_placement", lambda one: found.append(("run_placement", one))
    )
    return found


@pytest.mark.parametrize("command", ["up", "api", "placement", "scheduler", "agent"])
def test_each_command_runs_its_part(
    run: Run, ran: list[tuple[str, Settings]], command: str
) -> None:
    """Without options, each command runs its server with the default settings."""
    assert run(command).code == 0
    assert ran == [(f"run_{command}", Settings())]


def test_options_of_up(run: Run, ran: list[tuple[str, Settings]]) -> None:
    """Every option of `berth up` is in its setting."""
    ended = run(
        *("up", "--listen", "0.0.0.0:80", "--data", "d", "--ledger", "postgresql://h/db"),
        *("--fake-hosts", "7", "--vcpus", "3", "--memory-mb", "4", "--disk-gb", "5"),
        *("--auth", "http_basic", "--htpasswd", "users", "--policy", "p.toml"),
        "--insecure-listen",
    )
    assert ended.code == 0, ended.err
    ((_, settings),) = ran
    assert str(settings.api.listen) == "0.0.0.0:80"
    assert settings.api.insecure_listen
    assert settings.ledger.data_dir == Path("d")
    assert settings.ledger.url == "postgresql://h/db"
    agent = settings.agent
    assert (agent.fake_hosts, agent.vcpus, agent.memory_mb, agent.disk_gb) == (7, 3, 4, 5)
    assert settings.auth.mode is AuthMode.HTTP_BASIC
    assert settings.auth.htpasswd == Path("users")
    assert settings.policy.path == Path("p.toml")


def test_options_of_placement(run: Run, ran: list[tuple[str, Settings]]) -> None:
    """The options of `berth placement` set its own address, not that of the API."""
    ended = run(
        *("placement", "--listen", "127.0.0.1:80", "--ledger", "memory:", "--auth", "noauth2"),
        *("--policy-file", "rules", "--enforce-new-defaults"),
        *("--cors-origin", "http://a", "--cors-origin", "http://b", "--cors-header", "x-a"),
    )
    assert ended.code == 0, ended.err
    ((_, settings),) = ran
    placement = settings.placement
    assert str(placement.listen) == "127.0.0.1:80"
    assert settings.api == Settings().api
    assert settings.ledger.url == "memory:"
    assert settings.auth.mode is AuthMode.NOAUTH2
    assert placement.policy_file == Path("rules")
    assert placement.enforce_new_defaults
    assert placement.cors_origins == ("http://a", "http://b")
    assert placement.cors_headers == ("x-a",)


def test_zero_is_something_said(run: Run, ran: list[tuple[str, Settings]]) -> None:
    """The value 0 of an option differs from a missing option."""
    assert run("up", "--vcpus", "0").code == 0
    assert ran[0][1].agent.vcpus == 0


def test_an_option_beats_variable_and_file(
    run: Run,
    ran: list[tuple[str, Settings]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An option overrides the environment, which overrides the file."""
    file = tmp_path / "berth.toml"
    file.write_text('[api]\nlisten = "0.0.0.0:1"\ninsecure_listen = true\n[agent]\nvcpus = 1\n')
    monkeypatch.setenv("BERTH_AGENT_VCPUS", "2")
    assert run("up", "--config", file, "--listen", "0.0.0.0:3").code == 0
    ((_, settings),) = ran
    assert str(settings.api.listen) == "0.0.0.0:3"
    assert settings.api.insecure_listen
    assert settings.agent.vcpus == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--listen", "0.0.0.0:1"],
        ["--listen", "nowhere"],
        ["--auth", "http_basic"],
        ["--auth", "magic"],
        ["--fake-hosts", "-1"],
        ["--fake-hosts", "1", "--fleet", "f.json"],
        ["--config", "/nowhere.toml"],
    ],
)
def test_what_is_wrong_starts_nothing(
    run: Run, ran: list[tuple[str, Settings]], words: list[str]
) -> None:
    """An invalid option ends with 2 and an error message."""
    ended = run("up", *words)
    assert ended.code == 2
    assert ended.err
    assert ran == []


def test_a_data_folder_that_cannot_be_created_is_named(run: Run, tmp_path: Path) -> None:
    """`berth ledger migrate` names a data folder that it cannot create, without a traceback."""
    (tmp_path / "file").touch()
    ended = run("ledger", "migrate", "--data", tmp_path / "file" / "data")
    assert ended.code != 0
    assert f"{tmp_path / 'file' / 'data'}: cannot be created (Not a directory)" in ended.err
