"""The commands for the keys of hosts, and the enrolment on a host."""

import io
from pathlib import Path

import httpx
import pytest

from berth.adapters.gateway.control_pins import ControlPins, pins_path
from berth.adapters.gateway.host_key import HostKeyFile
from berth.config import control_keys
from berth.domain.compute.host_identity import encoded_key
from tests.unit.cli.cloud import Cloud
from tests.unit.cli.conftest import Run

_PATH = "/berth/v1/host-keys"
_KEYS = {
    "host_keys": [
        {
            "host": "rack1-07",
            "state": "valid",
            "keys": ["AAAABBBBCCCCDDDD"],
            "added_at_s": 1_700_000_000.0,
            "token_expires_at_s": None,
        }
    ]
}


def enroll_words(folder: Path, url: str = "http://127.0.0.1:8774") -> list[object]:
    """Return the command that enrols host `a/b` with a key in a folder."""
    return ["agent-enroll", "--host", "a/b", "--gateway", url, "--key", folder / "agent.key"]


def test_a_token_is_printed_alone(cloud: Cloud, run: Run) -> None:
    """A script can pass the output on; `--life` is sent."""
    token = {"host": "rack1-07", "token": "secret", "expires_at_s": 1.0}
    cloud.fixed["POST", f"{_PATH}/rack1-07/token"] = (200, token)
    assert run("host", "enroll", "rack1-07", "--life", "60").out == "secret\n"
    assert cloud.body() == {"life_s": 60.0}
    assert '"token": "secret"' in run("host", "enroll", "rack1-07", "--json").out


def test_keys_are_listed_with_their_states(cloud: Cloud, run: Run) -> None:
    """The table shows the beginning of each key, and an empty list how to enrol a host."""
    cloud.fixed["GET", _PATH] = (200, _KEYS)
    line = run("host", "keys").out.splitlines()[-1]
    assert line.split() == ["rack1-07", "valid", "AAAABBBBCCCC", "2023-11-14", "22:13:20", "-"]
    cloud.fixed["GET", _PATH] = (200, {"host_keys": []})
    assert "berth host enroll NAME" in run("host", "keys").out


def test_keys_are_rotated_and_revoked(cloud: Cloud, run: Run) -> None:
    """Both commands name the host, and the second how to let it in again."""
    cloud.fixed["POST", f"{_PATH}/rack1-07/rotate"] = (204, "")
    cloud.fixed["DELETE", f"{_PATH}/rack1-07"] = (204, "")
    assert "rack1-07 will replace its key" in run("host", "rotate-key", "rack1-07").out
    assert "berth host enroll rack1-07" in run("host", "revoke-key", "rack1-07").out


def test_an_enrolment_exchanges_the_token_for_a_key(
    cloud: Cloud, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The public half and the token are sent, without a proxy; the private half stays here."""
    monkeypatch.setenv("BERTH_ENROLL_TOKEN", "secret\n")
    cloud.fixed["PUT", f"{_PATH}/a/b"] = (200, {"control_keys": []})
    done = run(*enroll_words(tmp_path))
    assert (done.code, "start its agent, or restart it" in done.out) == (0, True)
    key = HostKeyFile(tmp_path / "agent.key").public_key
    assert cloud.body() == {"token": "secret", "public_key": key}
    assert cloud.last.url.raw_path == f"{_PATH}/a%2Fb".encode()
    assert cloud.options["trust_env"] is False


def test_a_refused_enrolment_keeps_the_old_key(
    cloud: Cloud, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control plane's reason is the error, and the old key stays; likewise when it is away."""
    monkeypatch.setenv("BERTH_ENROLL_TOKEN", "used")
    path = tmp_path / "agent.key"
    old = HostKeyFile.create(path).public_key
    cloud.fixed["PUT", f"{_PATH}/a/b"] = (403, {"forbidden": {"message": "the token is used"}})
    done = run(*enroll_words(tmp_path))
    assert (done.code, "the token is used" in done.err) == (1, True)
    cloud.fails = httpx.ConnectError("no route")
    done = run(*enroll_words(tmp_path))
    assert (done.code, "--gateway-ca" in done.err) == (5, True)
    assert HostKeyFile(path).public_key == old
    assert [one.name for one in tmp_path.iterdir()] == ["agent.key"]


def test_a_token_is_not_sent_unencrypted(cloud: Cloud, run: Run, tmp_path: Path) -> None:
    """An http URL of another machine is refused before anything is sent."""
    done = run(*enroll_words(tmp_path, "http://control:8774"), "--token", "x")
    assert (done.code, "use https" in done.err, cloud.asked) == (2, True, [])


def test_without_a_terminal_the_token_must_be_given(
    cloud: Cloud, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the variable; an empty variable counts as not set, and nothing is sent."""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("BERTH_ENROLL_TOKEN", "")
    done = run(*enroll_words(tmp_path))
    assert (done.code, "BERTH_ENROLL_TOKEN" in done.err, cloud.asked) == (2, True, [])
    assert list(tmp_path.iterdir()) == []


def test_the_token_may_be_typed(
    cloud: Cloud, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal the command asks for the token."""
    monkeypatch.delenv("BERTH_ENROLL_TOKEN", raising=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", lambda *_, **__: "typed")
    cloud.fixed["PUT", f"{_PATH}/a/b"] = (200, {"control_keys": []})
    assert run(*enroll_words(tmp_path)).code == 0
    assert cloud.body()["token"] == "typed"


def test_an_enrolment_pins_the_keys_of_the_control_plane(
    cloud: Cloud, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pins are those of the last enrolment; none are left if the control plane has none."""
    monkeypatch.setenv("BERTH_ENROLL_TOKEN", "secret")
    path = pins_path(tmp_path / "agent.key")
    key = encoded_key(bytes(range(32)))
    cloud.fixed["PUT", f"{_PATH}/a/b"] = (200, {"control_keys": [key]})
    assert run(*enroll_words(tmp_path)).code == 0
    assert ControlPins(path).keys == (bytes(range(32)),)
    cloud.fixed["PUT", f"{_PATH}/a/b"] = (200, {"control_keys": []})
    assert run(*enroll_words(tmp_path)).code == 0
    assert not path.exists()


def test_the_permissions_of_a_host_are_printed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands name the user, the virtual host of the bus, and nothing but the own queues."""
    monkeypatch.setenv("BERTH_BUS_URL", "amqps://berth:secret@broker/my%20cloud")
    add, allow, limit = run("host", "broker-permissions", "rack1-07").out.splitlines()
    assert add == "rabbitmqctl add_user berth.host.rack1-07"
    own = r"'^berth\.host\.rack1\-07\.[0-9a-f]{32}$'"
    rights = rf"{own} '^berth\.gateways$' {own}"
    assert allow == f"rabbitmqctl set_permissions -p 'my cloud' berth.host.rack1-07 {rights}"
    assert "max-connections" in limit
    other = run("host", "broker-permissions", "a;b", "--prefix", "x", "--vhost", "/").out
    assert "a;b" not in other
    assert "-p / 'x.host.~" in other


def test_control_keys_are_rotated(run: Run, tmp_path: Path) -> None:
    """The next key is now the first one."""
    path = tmp_path / "control-keys"
    control_keys.create(path)
    _, following = control_keys.read(path)
    assert "restart them" in run("control-keys", "rotate", "--file", path).out
    first, _ = control_keys.read(path)
    assert first.private_bytes_raw() == following.private_bytes_raw()
