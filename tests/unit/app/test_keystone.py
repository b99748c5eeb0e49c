"""The mode `keystone` of a process: its parts, its extra, and the accounts of parent zones."""

import asyncio
import base64
import sys
from collections.abc import Mapping
from pathlib import Path

import bcrypt
import pytest

from berth.adapters.system import NoMetrics, SystemClock
from berth.api.auth.authentication import Credentials, Identity
from berth.api.auth.keystone import KeystoneAuth
from berth.api.errors import HttpError
from berth.app.run import Authentication, authentication_of
from berth.config.settings_reader import read_settings
from berth.domain.errors import InvalidInputError
from tests.unit.services.wiring import Told

# Nothing listens at the port 1.
URL = "http://127.0.0.1:1/v3"


def _open(options: Mapping[str, object] | None = None, told: Told | None = None) -> Authentication:
    given: dict[str, object] = {"auth.mode": "keystone", "keystone.auth_url": URL}
    given |= {"keystone.password": "s3", **(options or {})}
    return authentication_of(
        read_settings(None, {}, given),
        SystemClock(),
        told or Told(),  # type: ignore[arg-type] # it has the methods of `Telemetry`
        NoMetrics(),
    )


def _identify(made: Authentication, credentials: Credentials) -> Identity:
    # The loop of this folder's tests has a virtual time, which does not wait for threads.
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(_asked(made, credentials))


async def _asked(made: Authentication, credentials: Credentials) -> Identity:
    return await made.auth.identify(credentials)


def _basic(user: str) -> Credentials:
    text = base64.b64encode(f"{user}:word".encode()).decode()
    return Credentials(f"Basic {text}", None, "10.0.0.1")


def test_a_process_starts_without_keystone() -> None:
    """Keystone is needed by the first token, not by the start; the process issues no tokens."""
    told = Told()
    found = _open(told=told)
    assert found.tokens is None
    assert isinstance(found.keystone, KeystoneAuth)
    assert found.auth is found.keystone
    with pytest.raises(HttpError) as caught:
        _identify(found, Credentials(None, "token", "10.0.0.1"))
    assert caught.value.status == 503
    assert told.failed == ["keystone_unavailable"]


def test_without_its_extra_the_process_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error names the package and the extra."""
    monkeypatch.setitem(sys.modules, "keystoneauth1", None)
    monkeypatch.delitem(sys.modules, "berth.adapters.keystone", raising=False)
    with pytest.raises(
        InvalidInputError, match=r"keystoneauth1.*pip install 'berth-scheduler\[keystone\]'"
    ):
        _open()


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    """A file that cannot be read is an error at once."""
    missing = tmp_path / "none"
    with pytest.raises(InvalidInputError, match=r"keystone\.password_file"):
        _open({"keystone.password": None, "keystone.password_file": str(missing)})
    with pytest.raises(InvalidInputError, match=r"keystone\.ca_file"):
        _open({"keystone.ca_file": str(missing)})


def test_a_distant_keystone_without_tls_is_reported() -> None:
    """The log warns about `http` unless Keystone is on this machine."""
    told = Told()
    _open(told=told)
    assert told.events == []
    _open({"keystone.auth_url": "http://10.0.0.9:5000"}, told)
    assert told.events == ["keystone_without_tls"]


def test_parent_zones_log_in_with_accounts_without_a_project(tmp_path: Path) -> None:
    """HTTP Basic identifies parent zones only, and makes no caller an administrator."""
    word = bcrypt.hashpw(b"word", bcrypt.gensalt(4)).decode()
    users = tmp_path / "users"
    users.write_text(f"top:{word} # no project\nadmin:{word} # no project\nalice:{word}\n")
    made = _open({"auth.htpasswd": str(users)})
    for user in ("top", "admin"):
        parent = _identify(made, _basic(user))
        assert (parent.user_id, parent.project_id, parent.is_admin) == (user, "", False)
    for user, reason in (("alice", "only for parent zones"), ("eve", "is wrong")):
        with pytest.raises(HttpError, match=reason) as caught:
            _identify(made, _basic(user))
        assert caught.value.status == 401
