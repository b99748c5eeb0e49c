"""The start, readiness and end of the server under test."""

import os
import sys
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.conformance.placement import running, servers
from tests.conformance.placement.running import RunError, suite_files
from tests.conformance.placement.scenes import Settings
from tests.conformance.placement.servers import Choice, Start, StartError, serving
from tests.forks import PLACEMENT, Forks

NONE = Choice("none")


@pytest.fixture
def own_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the interpreter of the tests in place of the one of .venv-placement."""
    monkeypatch.setattr(servers, "PYTHON", Path(sys.executable))


def berth_words(settings: Settings, folder: Path, ledger: str = "memory:") -> list[str]:
    """Return the words with which Berth would be started."""
    start = Start(7, folder, settings, ["placement:reshaper:reshape"])
    return servers._berth(Choice("berth", ledger=ledger), start).words[1:]


def test_berth_is_told_the_settings(tmp_path: Path) -> None:
    """Each setting of a scene is passed as an option of `berth placement`."""
    always = ["placement", "--listen", "127.0.0.1:7", "--ledger", "memory:", "--auth", "noauth2"]
    assert berth_words(Settings(), tmp_path) == always
    assert berth_words(Settings(enforces_new_defaults=True), tmp_path) == [
        *always,
        "--enforce-new-defaults",
    ]
    assert berth_words(Settings(cors_origins=("http://a", "http://b")), tmp_path) == [
        *always,
        *["--cors-origin", "http://a", "--cors-origin", "http://b"],
    ]
    assert berth_words(Settings(cors_headers=("x-a",)), tmp_path) == [
        *always,
        *["--cors-header", "x-a"],
    ]


def test_an_open_policy_lists_every_rule(tmp_path: Path) -> None:
    """An open policy is a file in which every rule allows everyone."""
    *_, option, path = berth_words(Settings(opens_policy=True), tmp_path)
    assert option == "--policy-file"
    assert Path(path).read_text("utf-8") == '"placement:reshaper:reshape": "@"\n'


def test_a_ledger_may_lie_in_the_folder_of_the_server(tmp_path: Path) -> None:
    """`{folder}` in the ledger's URL stands for the server's folder."""
    words = berth_words(Settings(), tmp_path, "sqlite:{folder}/ledger.sqlite3")
    assert f"sqlite:{tmp_path}/ledger.sqlite3" in words


def test_the_real_one_is_configured_by_a_file(tmp_path: Path) -> None:
    """The configuration of the real Placement has its database, policy and CORS settings."""
    origin = Settings(enforces_new_defaults=True, cors_origins=("http://a",), cors_headers=("x",))
    text = servers._configuration(Start(7, tmp_path, origin))
    assert f"connection = sqlite:///{tmp_path}/placement.db" in text
    assert "enforce_new_defaults = True" in text
    assert text.endswith("[cors]\nallowed_origin = http://a\nallow_headers = x\n")
    assert "[cors]" not in servers._configuration(Start(7, tmp_path, Settings()))


@pytest.mark.usefixtures("own_python")
def test_a_server_lives_as_long_as_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server runs during its context; afterwards its process has ended and its folder is gone."""
    started = []
    begin = servers._begin

    def note(command: servers._Command, start: Start) -> object:
        process = begin(command, start)
        started.append((process, start))
        return process

    monkeypatch.setattr(servers, "_begin", note)
    with serving(NONE) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("PUT", "/resource_providers", b"{}")
        assert connection.getresponse().status == 404
        connection.close()
        ((process, start),) = started
        assert start.folder.is_dir()
        assert process.poll() is None
    assert process.poll() is not None
    assert not start.folder.exists()


def made_trait(port: int) -> int:
    """Create a trait and return the status."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    with closing(connection):
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
        connection.request("PUT", "/traits/CUSTOM_ONE", headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status


def test_a_fork_is_a_server_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks share no state, and the error for a fork that ends has its log."""
    with Forks(PLACEMENT) as forks:
        for _ in range(2):
            with serving(Choice("berth"), forks=forks) as port:
                assert made_trait(port) == 201
        monkeypatch.setitem(
            servers._COMMANDS, "berth", lambda *_: servers._Command(["berth", "nothing"])
        )
        failing = serving(Choice("berth"), forks=forks)
        with pytest.raises(StartError, match=r"exit code 2:\n(?s:.)*nothing"), failing:
            pass


@pytest.mark.parametrize(
    ("code", "said"),
    [("raise SystemExit('no database')", "exit code 1:\nno database"), ("", "exit code 0")],
)
def test_a_server_that_ends_is_told_with_its_log(
    monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    """The error for a server that ends has its exit code and log."""

    def command(choice: Choice, start: Start) -> servers._Command:
        return servers._Command([sys.executable, "-c", code])

    monkeypatch.setitem(servers._COMMANDS, "none", command)
    with pytest.raises(StartError, match=said), serving(NONE):
        pass


def failing_twice(tmp_path: Path) -> Callable[[Choice, Start], servers._Command]:
    """Return a command whose port is taken at the first two starts."""

    def command(choice: Choice, start: Start) -> servers._Command:
        tries = tmp_path / "tries"
        tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
        if len(tries.read_text()) < servers._STARTS_MAX:
            return servers._Command([sys.executable, "-c", "exit('Address already in use')"])
        return servers._none(choice, start)

    return command


@pytest.mark.usefixtures("own_python")
def test_a_taken_port_is_no_reason_to_give_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The start is repeated with another port if the port is taken."""
    monkeypatch.setitem(servers._COMMANDS, "none", failing_twice(tmp_path))
    with serving(NONE) as port:
        assert port > 0


def test_a_missing_program_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A missing program raises StartError with its name."""
    monkeypatch.setattr(servers, "BERTH", tmp_path / "berth")
    with pytest.raises(StartError, match=r"berth: .*No such file"), serving(Choice("berth")):
        pass


def test_a_missing_environment_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A missing environment raises RunError with the command that creates it."""
    monkeypatch.setattr(running, "PYTHON", tmp_path / "python")
    with pytest.raises(RunError, match="make placement-peer"):
        suite_files()


def test_files_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files are chosen with or without suffix, the longest first; unknown names are refused."""
    folder = tmp_path / running._GABBITS.replace("*", "3").rpartition("/")[0]
    folder.mkdir(parents=True)
    for name, length in (("traits", 10), ("usage", 30), ("cors", 20)):
        (folder / f"{name}.yaml").write_text("x" * length)
    monkeypatch.setattr(running, "ENVIRONMENT", tmp_path)
    monkeypatch.setattr(running, "PYTHON", Path(sys.executable))
    assert [path.stem for path in suite_files()] == ["usage", "cors", "traits"]
    assert [path.stem for path in suite_files(["traits.yaml", "cors"])] == ["cors", "traits"]
    with pytest.raises(RunError, match=r"not in the suite: nobody"):
        suite_files(["nobody", "cors"])


def test_the_environment_says_which_servers_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """`BERTH_PLACEMENT_SERVERS` sets the servers under test."""
    monkeypatch.setitem(os.environ, "BERTH_PLACEMENT_SERVERS", "berth real")
    assert servers.under_test() == ("berth", "real")


def test_settings_of_the_developer_do_not_reach_the_server() -> None:
    """Variables that configure Berth are removed from the server's environment."""
    assert servers._without_settings({"BERTH_LEDGER_URL": "x", "PATH": "y"}) == {"PATH": "y"}
