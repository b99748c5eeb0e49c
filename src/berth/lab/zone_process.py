"""One real zone: a `berth up` process with its own folder, ledger, keys, accounts and fake hosts.

`berth.lab.zone_tree` starts trees of them.
"""

import json
import os
import secrets
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import bcrypt
import httpx
import msgspec

from berth.adapters.virt.fake import FakeHost
from berth.config import zone_keys
from berth.config.settings_reader import ENV_PREFIX
from berth.domain.errors import UnavailableError
from berth.domain.zones.zone import Zone

READY_S: Final = 180.0
"""Zones may take this many seconds to start: many zones may start at once on a busy machine."""

STOP_S: Final = 20.0
"""A zone may take this many seconds to stop before it is killed."""

_POLL_S: Final = 0.05
_ASK_S: Final = 60.0
# Error messages quote this many characters from the end of a log, enough for a traceback.
_LOG_SHOWN: Final = 2000
# This is the minimum of bcrypt. The passwords are random, so a higher cost would only take time.
_BCRYPT_ROUNDS: Final = 4
# All URLs are http. An empty context keeps httpx from loading the system's certificates for each
# client, which takes tens of milliseconds.
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_VERSION: Final = {"OpenStack-API-Version": "compute 2.96"}


@dataclass(frozen=True, slots=True)
class ZoneSpec:
    """The description of a zone and of its descendants.

    Attributes:
        name: the zone's name.
        hosts: the zone's own fake hosts.
        children: its child zones.
        settings: the settings of its process by `section.key`, each a number, string, bool or list
            of strings; they override the defaults of this module.
        weight_offset: the offset that its parent adds to its weights.
        weight_scale: the factor that its parent applies to its weights.
    """

    name: str
    hosts: Sequence[FakeHost] = ()
    children: tuple["ZoneSpec", ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    weight_offset: float = 0.0
    weight_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class ZoneAccount:
    """A user of a zone with a password and a project; a parent's account has no project."""

    user: str
    project: str
    password: str = field(repr=False)


class RunningProcess(Protocol):
    """A process that has been started, with the methods of `subprocess.Popen` that zones need."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code.

        Raises:
            TimeoutExpired: the process still runs after the timeout, in seconds.
        """
        ...

    def send_signal(self, sig: int) -> None:
        """Send a signal unless the process has ended."""
        ...

    def kill(self) -> None:
        """Send SIGKILL unless the process has ended."""
        ...


Launch = Callable[[Sequence[str], Mapping[str, str], Path], RunningProcess]
"""Starts `berth WORDS…` with an environment; the output of the process is appended to a log."""


def launch_program(words: Sequence[str], environ: Mapping[str, str], log: Path) -> RunningProcess:
    """Start `berth WORDS…` as a separate process; see `Launch`."""
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and our own words
            [sys.executable, "-m", "berth.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environ,
        )


class ZoneProcess:
    """One zone, running or not. Its state is in its folder and outlives its process.

    Attributes:
        spec: the zone's description.
        folder: the folder of its data, key files, `accounts`, `berth.toml` and `berth.log`.
        parent: its parent zone, or None for the root.
        url: the URL of its API, the same after a restart.
        admin: the account of an operator.
        tenant: the account of a user without an operator's rights.
        for_parent: the account of the parent, or None for a root.

    Args:
        spec: the zone's description.
        folder: the zone's folder, which is created.
        port: the port of its API on loopback.
        parent: the zone that may use this one as a child, or None. This zone trusts the parent's
            public keys and has an account for it.
        launch: starts its processes.
    """

    def __init__(
        self,
        spec: ZoneSpec,
        folder: Path,
        port: int,
        parent: "ZoneProcess | None" = None,
        *,
        launch: Launch = launch_program,
    ) -> None:
        self.spec = spec
        self.folder = folder
        self.parent = parent
        self.url = f"http://127.0.0.1:{port}"
        self.admin = _account("admin")
        self.tenant = _account("tenant")
        self.for_parent = None if parent is None else _account(f"zone-{parent.name}", project="")
        self._port = port
        self._launch = launch
        self._process: RunningProcess | None = None
        self._write_files()

    @property
    def name(self) -> str:
        """The zone's name."""
        return self.spec.name

    @property
    def depth(self) -> int:
        """The depth of the zone in its tree; 0 for the root."""
        return 0 if self.parent is None else 1 + self.parent.depth

    @property
    def key_file(self) -> Path:
        """The path of the zone's private keys; see `berth.config.zone_keys`."""
        return self.folder / "zone-keys"

    @property
    def parents_file(self) -> Path:
        """The path of the file that lists the zone's trusted parents."""
        return self.folder / "zone-parents"

    @property
    def log(self) -> Path:
        """The path of the zone's log, to which each of its processes appends."""
        return self.folder / "berth.log"

    @property
    def pid(self) -> int | None:
        """The id of the zone's process, or None when it is not running."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    # ---- the process ----------------------------------------------------------------------

    def start(self) -> None:
        """Start the zone's process with the state that earlier ones left, without waiting for it.

        Raises:
            UnavailableError: the zone is already running.
        """
        if self.pid is not None:
            raise UnavailableError(
                f"zone {self.name} already runs as process {self.pid}; stop it first"
            )
        # BERTH_ variables of the calling shell are meant for another deployment.
        environ = {
            name: text for name, text in os.environ.items() if not name.startswith(ENV_PREFIX)
        }
        words = ("up", "--config", str(self.folder / "berth.toml"))
        self._process = self._launch(words, environ, self.log)

    def wait_until_ready(self, timeout_s: float = READY_S) -> None:
        """Wait until the zone answers and all its hosts are up.

        Raises:
            UnavailableError: its process has ended, or takes longer than `timeout_s` seconds; the
                message quotes the end of its log.
        """
        deadline_s = time.monotonic() + timeout_s
        with self.client() as http:
            while time.monotonic() < deadline_s and self.pid is not None:
                if self._hosts_up(http) >= len(self.spec.hosts):
                    return
                time.sleep(_POLL_S)
        raise UnavailableError(
            f"zone {self.name} did not become ready; the end of its log:\n{self.log_end}"
        )

    def _hosts_up(self, http: httpx.Client) -> int:
        """Return the number of hosts that are up, or -1 if the zone does not answer or refuses."""
        try:
            answer = http.get("/berth/v1/status")
        except httpx.TransportError:
            return -1
        if not answer.is_success:
            return -1
        up: int = answer.json()["hosts"]["up"]
        return up

    @property
    def log_end(self) -> str:
        """The last 2,000 characters of the zone's log; empty before its first start."""
        if not self.log.exists():
            return ""
        return self.log.read_text("utf-8", "replace")[-_LOG_SHOWN:]

    def terminate(self) -> None:
        """Send SIGTERM to the zone's process, without waiting for its end."""
        if self.pid is not None and self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Send SIGTERM to the zone's process, and kill it if it runs after `timeout_s` seconds."""
        self.terminate()
        try:
            if self._process is not None:
                self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass  # `kill` ends it in the `finally` block
        finally:
            self.kill()

    def kill(self) -> None:
        """End the zone's process with SIGKILL, so it loses its memory as in a power cut."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    # ---- its API --------------------------------------------------------------------------

    def client(self, account: ZoneAccount | None = None) -> httpx.Client:
        """Return a client of the zone's API for an account, by default the operator's.

        The caller must close it.
        """
        user = account or self.admin
        return httpx.Client(
            base_url=self.url,
            auth=httpx.BasicAuth(user.user, user.password),
            headers=_VERSION,
            timeout=_ASK_S,
            trust_env=False,
            verify=_NO_TLS,
        )

    def adopt(self, child: "ZoneProcess", *, api_url: str | None = None) -> Zone:
        """Make another zone a child of this one through the API, as an operator does.

        Args:
            child: the zone, which must have this one as its parent.
            api_url: the URL to reach it by, such as a proxy's; by default its own.

        Returns:
            The child's record, without its password.

        Raises:
            UnavailableError: this zone refuses the child or does not answer.
        """
        account = child.for_parent
        fields: dict[str, object] = {
            "name": child.name,
            "api_url": api_url or child.url,
            "weight_offset": child.spec.weight_offset,
            "weight_scale": child.spec.weight_scale,
        }
        if account is not None:
            fields |= {"username": account.user, "password": account.password}
        try:
            with self.client() as http:
                answer = http.post("/zones", json={"zone": fields})
        except httpx.TransportError as error:
            reason = f"cannot add child {child.name}: zone {self.name} does not answer ({error})"
            raise UnavailableError(reason) from error
        if not answer.is_success:
            reason = f"{answer.status_code} {answer.text[:500]}"
            raise UnavailableError(f"zone {self.name} refused child {child.name}: {reason}")
        record = answer.json()["zone"]
        return Zone(record["id"], record["name"], record["api_url"], username=record["username"])

    def active_children(self) -> frozenset[str]:
        """Return the names of the children that are active and have answered.

        Raises:
            UnavailableError: this zone refuses the request or does not answer.
        """
        try:
            with self.client() as http:
                zones = http.get("/zones/detail").raise_for_status().json()["zones"]
        except httpx.HTTPError as error:
            reason = f"cannot list the children of zone {self.name}: {error}"
            raise UnavailableError(reason) from error
        return frozenset(one["name"] for one in zones if one["is_active"] and one["seen_at"])

    # ---- its files ------------------------------------------------------------------------

    def _write_files(self) -> None:
        # Only the owner may read the folder: it holds keys and passwords.
        self.folder.mkdir(parents=True, mode=0o700)
        zone_keys.create(self.key_file)
        if self.parent is not None:
            public = zone_keys.public_text(self.parent.key_file)
            zone_keys.add_parent(self.parents_file, self.parent.name, public)
        fleet = self.folder / "fleet.json"
        fleet.write_bytes(msgspec.json.encode(list(self.spec.hosts)))
        accounts = [one for one in (self.admin, self.tenant, self.for_parent) if one is not None]
        htpasswd = self.folder / "accounts"
        htpasswd.write_text("".join(map(_line_of, accounts)))
        htpasswd.chmod(0o600)
        settings = {
            "api.listen": f"127.0.0.1:{self._port}",
            "auth.mode": "http_basic",
            "auth.htpasswd": str(htpasswd),
            "auth.admins": [self.admin.user],
            "ledger.data_dir": str(self.folder / "data"),
            "agent.fleet": str(fleet),
            "zones.name": self.name,
            "zones.key_file": str(self.key_file),
            "zones.parents_file": str(self.parents_file),
            **self.spec.settings,
        }
        (self.folder / "berth.toml").write_text(_toml(settings))


def _account(user: str, project: str | None = None) -> ZoneAccount:
    """Return an account with a random password; by default, its project is named like the user."""
    works_in = user if project is None else project
    return ZoneAccount(user, project=works_in, password=secrets.token_urlsafe(16))


def _line_of(account: ZoneAccount) -> str:
    hashed = bcrypt.hashpw(account.password.encode(), bcrypt.gensalt(_BCRYPT_ROUNDS)).decode()
    comment = f"project={account.project}" if account.project else "no project"
    return f"{account.user}:{hashed} # {comment}\n"


def _toml(settings: Mapping[str, object]) -> str:
    """Return settings as TOML, whose numbers, strings, bools and lists are written as in JSON."""
    lines: list[str] = []
    last = ""
    for key in sorted(settings):
        section, _, name = key.partition(".")
        if section != last:
            lines.append(f"[{section}]")
            last = section
        lines.append(f"{name} = {json.dumps(settings[key])}")
    return "\n".join([*lines, ""])
