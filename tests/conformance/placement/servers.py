"""Starts a server of the Placement API for tests: Berth, the real Placement, or a 404 server.

Each server has a port and a folder of its own, which are released when its context ends. It is
stopped by its process id, so no other server is affected.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from berth.lab.loopback import free_port
from tests.conformance.placement.scenes import Settings
from tests.forks import Fork, Forks

ROOT = Path(__file__).parents[3]
BERTH = ROOT / ".venv" / "bin" / "berth"
ENVIRONMENT = ROOT / ".venv-placement"
PYTHON = ENVIRONMENT / "bin" / "python"
MISSING = "There is no .venv-placement with the real Placement; `make placement-peer` makes it."

DEFAULTS = Settings()
# With `real` added, the real Placement shows that the tests are right, which a change of Berth
# cannot alter.
UNDER_TEST = "berth"

_READY_S = 60.0
_STOP_S = 20.0
_STARTS_MAX = 3


class StartError(Exception):
    """The server did not start; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of the server under test.

    Attributes:
        server: `berth`, `real` or `none`.
        mutant: for `real`, the name of a broken behaviour (mutants.py), or an empty string.
        ledger: for `berth`, the URL of its ledger; `{folder}` stands for the server's folder.
    """

    server: str = "berth"
    mutant: str = ""
    ledger: str = "memory:"


@dataclass(frozen=True, slots=True)
class Start:
    """The parameters of a server's start.

    Attributes:
        port: the port on the loopback address.
        folder: the server's own folder, which is empty.
        settings: of the scene.
        rules: the names of all policy rules, which an open policy must list.
    """

    port: int
    folder: Path
    settings: Settings
    rules: Sequence[str] = ()

    def policy_file(self) -> Path:
        """Write a policy file that allows everyone, and return its path."""
        path = self.folder / "policy.yaml"
        path.write_text("".join(f'{json.dumps(rule)}: "@"\n' for rule in self.rules), "utf-8")
        return path


@dataclass(frozen=True, slots=True)
class _Command:
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict[str, str])


Process = subprocess.Popen[bytes] | Fork


@contextmanager
def serving(
    choice: Choice,
    settings: Settings = DEFAULTS,
    rules: Sequence[str] = (),
    *,
    forks: Forks | None = None,
) -> Iterator[int]:
    """Start a server and yield its port; stop it and remove its folder at the end.

    Args:
        choice: the server.
        settings: of the scene.
        rules: the names of all policy rules, for an open policy.
        forks: for `berth`, a process that starts it by a fork, which is faster.

    Raises:
        StartError: the server ended or did not answer in time.
    """
    for attempt in range(1, _STARTS_MAX + 1):
        with tempfile.TemporaryDirectory(prefix="berth-placement-") as folder:
            start = Start(free_port(), Path(folder), settings, rules)
            command = _COMMANDS[choice.server](choice, start)
            process = _fork(command, start, forks) if forks else _begin(command, start)
            try:
                _wait_until_ready(process, start)
            except StartError:
                # Another process may have taken the port between its choice and the start.
                _end(process)
                if attempt == _STARTS_MAX or "in use" not in _log(start).lower():
                    raise
                continue
            except BaseException:
                _end(process)
                raise
            try:
                yield start.port
            finally:
                _end(process)
            return


def _berth(choice: Choice, start: Start) -> _Command:
    settings = start.settings
    ledger = choice.ledger.replace("{folder}", str(start.folder))
    words = [str(BERTH), "placement", "--listen", f"127.0.0.1:{start.port}"]
    words += ["--ledger", ledger, "--auth", "noauth2"]
    if settings.enforces_new_defaults:
        words.append("--enforce-new-defaults")
    if settings.opens_policy:
        words += ["--policy-file", str(start.policy_file())]
    for origin in settings.cors_origins:
        words += ["--cors-origin", origin]
    for header in settings.cors_headers:
        words += ["--cors-header", header]
    return _Command(words)


def _real(choice: Choice, start: Start) -> _Command:
    (start.folder / "placement.conf").write_text(_configuration(start), "utf-8")
    words = [str(ENVIRONMENT / "bin" / "uwsgi"), "--http-socket", f"127.0.0.1:{start.port}"]
    # uWSGI closes each connection without sending this header itself.
    words += ["--need-app", "--die-on-term", "--add-header", "Connection: close"]
    words += ["--buffer-size", "65535"]
    if choice.mutant:
        words += ["--module", "tests.conformance.placement.broken:application"]
    else:
        words += ["--module", "placement.wsgi.api:application"]
    return _Command(
        words,
        {
            "OS_PLACEMENT_CONFIG_DIR": str(start.folder),
            "PYTHONPATH": str(ROOT),
            "PLACEMENT_MUTANT": choice.mutant,
        },
    )


def _configuration(start: Start) -> str:
    settings = start.settings
    policy = f"policy_file = {start.policy_file()}\n" if settings.opens_policy else ""
    text = (
        "[api]\nauth_strategy = noauth2\n"
        "[placement_database]\nsync_on_startup = true\n"
        f"connection = sqlite:///{start.folder}/placement.db\n"
        f"[oslo_policy]\nenforce_new_defaults = {settings.enforces_new_defaults}\n{policy}"
    )
    if settings.cors_origins:
        text += f"[cors]\nallowed_origin = {','.join(settings.cors_origins)}\n"
        text += f"allow_headers = {','.join(settings.cors_headers)}\n"
    return text


def _none(choice: Choice, start: Start) -> _Command:
    return _Command([str(PYTHON), str(Path(__file__).with_name("nothing.py")), str(start.port)])


def under_test() -> tuple[str, ...]:
    """Return the names of the servers for the tests of real clients and of the whole suite.

    `BERTH_PLACEMENT_SERVERS`, with names separated by blanks, overrides them.
    """
    return tuple(os.environ.get("BERTH_PLACEMENT_SERVERS", UNDER_TEST).split())


_COMMANDS: dict[str, Callable[[Choice, Start], _Command]] = {
    "berth": _berth,
    "real": _real,
    "none": _none,
}
SERVERS = tuple(_COMMANDS)


def _log(start: Start) -> str:
    return (start.folder / "log").read_text("utf-8", "replace")


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that configure Berth."""
    return {name: one for name, one in environment.items() if not name.startswith("BERTH_")}


def _environment(command: _Command) -> dict[str, str]:
    return {**_without_settings(os.environ), **command.environment}


def _fork(command: _Command, start: Start, forks: Forks) -> Fork:
    log = start.folder / "log"
    log.touch()
    return forks.start(command.words[1:], _environment(command), start.folder, log)


def _begin(command: _Command, start: Start) -> subprocess.Popen[bytes]:
    with (start.folder / "log").open("wb") as log:
        try:
            return subprocess.Popen(
                command.words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=start.folder,
                env=_environment(command),
            )
        except OSError as error:
            raise StartError(f"{command.words[0]}: {error}") from error


def _wait_until_ready(process: Process, start: Start) -> None:
    """Wait until the server answers GET /, which needs no token."""
    deadline_s = time.monotonic() + _READY_S
    while time.monotonic() < deadline_s and process.poll() is None:
        connection = HTTPConnection("127.0.0.1", start.port, timeout=_READY_S)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except (OSError, HTTPException):
            time.sleep(0.02)
        else:
            if process.poll() is None:
                return
        finally:
            connection.close()
    code = process.poll()
    ended = "does not answer" if code is None else f"ended with exit code {code}"
    raise StartError(f"{process.args!r} {ended}:\n{_log(start)[-3000:]}")


def _end(process: Process) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
