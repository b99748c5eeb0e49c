"""One real zone: a `berth up` with a folder, a ledger, keys, accounts and made-up hosts of its own.

Trees of them are started by `berth.lab.zone_tree`.
"""

import json
import os
import secrets
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import bcrypt
import httpx
import msgspec

from berth.adapters.virt.fake import FakeHost
from berth.config import zone_keys
from berth.config.settings_reader import ENV_PREFIX
from berth.domain.errors import UnavailableError
from berth.domain.zones.zone import Zone

READY_S: Final = 180.0
"""How long zones may take to start, in seconds: many of them on a machine with much else to do."""
STOP_S: Final = 20.0
"""How long a zone may take to stop before it is killed, in seconds."""

_POLL_S: Final = 0.05
_ASK_S: Final = 60.0
_LOG_SHOWN: Final = 2000
_BCRYPT_ROUNDS: Final = 4
"""As few as there can be: the passwords are random, and nobody is to wait for them."""
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Nothing is asked by https; a context with certificates for each client would take long."""
_VERSION: Final = {"OpenStack-API-Version": "compute 2.96"}


@dataclass(frozen=True, slots=True)
class ZoneSpec:
    """What a zone is to be, and all below it.

    `hosts` are its own. `settings` are those of its process, as `section.key` to a number, text,
    bool or list of texts; they beat what is set here by itself. `weight_offset` and `weight_scale`
    are what its parent does with its weights.
    """

    name: str
    hosts: Sequence[FakeHost] = ()
    children: tuple["ZoneSpec", ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    weight_offset: float = 0.0
    weight_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class ZoneAccount:
    """Somebody with a password in a zone, and the project that they work in; parents have none."""

    user: str
    project: str
    password: str = field(repr=False)


class ZoneProcess:
    """One zone, running or not. What it has been told is in its folder, and outlives its process.

    Attributes:
        spec: what it is.
        folder: its data, its files of keys, `accounts`, `berth.toml` and `berth.log`.
        url: of its API, the same after a restart.
        admin: an operator of the zone.
        tenant: a user who is none.

    Args:
        spec: see above.
        folder: see above; it is made.
        port: of its API, on loopback.
        parent: the zone that may ask it; its public keys are trusted, and it has an account.
    """

    def __init__(
        self, spec: ZoneSpec, folder: Path, port: int, parent: "ZoneProcess | None" = None
    ) -> None:
        self.spec = spec
        self.folder = folder
        self.parent = parent
        self.url = f"http://127.0.0.1:{port}"
        self.admin = _account("admin")
        self.tenant = _account("tenant")
        self.for_parent = None if parent is None else _account(f"zone-{parent.name}", project="")
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._write_files()

    @property
    def name(self) -> str:
        """What it calls itself."""
        return self.spec.name

    @property
    def depth(self) -> int:
        """How many zones are above it."""
        return 0 if self.parent is None else 1 + self.parent.depth

    @property
    def key_file(self) -> Path:
        """The file of its private keys; see `berth.config.zone_keys`."""
        return self.folder / "zone-keys"

    @property
    def parents_file(self) -> Path:
        """The file of the parents that it trusts."""
        return self.folder / "zone-parents"

    @property
    def log(self) -> Path:
        """What its processes have said, one after the other."""
        return self.folder / "berth.log"

    @property
    def pid(self) -> int | None:
        """The id of its process; None when it does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    # ---- the process ----------------------------------------------------------------------

    def start(self) -> None:
        """Start it, or start it again with what it has; `wait_until_ready` tells when it answers.

        Raises:
            UnavailableError: it runs already.
        """
        if self.pid is not None:
            raise UnavailableError(f"zone {self.name} runs already, as process {self.pid}")
        command = [sys.executable, "-m", "berth.cli.main", "up"]
        # What is set for a Berth of the one who starts it is not meant for this one.
        environ = {
            name: text for name, text in os.environ.items() if not name.startswith(ENV_PREFIX)
        }
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own words
                [*command, "--config", str(self.folder / "berth.toml")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environ,
            )

    def wait_until_ready(self, timeout_s: float = READY_S) -> None:
        """Wait until it answers and all its hosts are up.

        Raises:
            UnavailableError: it has ended, or takes longer; the end of its log is in the message.
        """
        deadline_s = time.monotonic() + timeout_s
        with self.client() as http:
            while time.monotonic() < deadline_s and self.pid is not None:
                if self._hosts_up(http) >= len(self.spec.hosts):
                    return
                time.sleep(_POLL_S)
        raise UnavailableError(f"zone {self.name} did not start; the end of its log:\n{self.said}")

    def _hosts_up(self, http: httpx.Client) -> int:
        """Return how many hosts are up; -1 when it does not answer yet."""
        try:
            answer = http.get("/berth/v1/status")
        except httpx.TransportError:
            return -1
        if not answer.is_success:
            return -1
        up: int = answer.json()["hosts"]["up"]
        return up

    @property
    def said(self) -> str:
        """The end of its log; nothing before it was started."""
        if not self.log.exists():
            return ""
        return self.log.read_text("utf-8", "replace")[-_LOG_SHOWN:]

    def terminate(self) -> None:
        """Ask its process to end, and do not wait for it."""
        if self.pid is not None and self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self, timeout_s: float = STOP_S) -> None:
        """End its process as a service manager does, and wait for it."""
        self.terminate()
        try:
            if self._process is not None:
                self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """End its process with SIGKILL, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    # ---- its API --------------------------------------------------------------------------

    def client(self, account: ZoneAccount | None = None) -> httpx.Client:
        """Return a client of its API, for the operator or for somebody else; close it."""
        who = account or self.admin
        return httpx.Client(
            base_url=self.url,
            auth=httpx.BasicAuth(who.user, who.password),
            headers=_VERSION,
            timeout=_ASK_S,
            trust_env=False,
            verify=_NO_TLS,
        )

    def adopt(self, child: "ZoneProcess", *, api_url: str | None = None) -> Zone:
        """Make another zone a child of this one, by the API, as an operator does.

        Args:
            child: it has to know this zone for its parent.
            api_url: where to ask it, when not straight; something that delays may be between.

        Returns:
            Its record, without its password.

        Raises:
            UnavailableError: this zone refuses, or does not answer.
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
            raise UnavailableError(f"zone {self.name} does not answer: {error}") from error
        if not answer.is_success:
            reason = f"{answer.status_code} {answer.text[:500]}"
            raise UnavailableError(f"zone {self.name} does not take {child.name}: {reason}")
        said = answer.json()["zone"]
        return Zone(said["id"], said["name"], said["api_url"], username=said["username"])

    def active_children(self) -> frozenset[str]:
        """Return the names of the children that have answered, and are asked.

        Raises:
            UnavailableError: this zone does not answer.
        """
        try:
            with self.client() as http:
                zones = http.get("/zones/detail").raise_for_status().json()["zones"]
        except httpx.HTTPError as error:
            raise UnavailableError(f"zone {self.name} does not answer: {error}") from error
        return frozenset(one["name"] for one in zones if one["is_active"] and one["seen_at"])

    # ---- its files ------------------------------------------------------------------------

    def _write_files(self) -> None:
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
    """Make up a password; the project has the name of the user unless told otherwise."""
    works_in = user if project is None else project
    return ZoneAccount(user, project=works_in, password=secrets.token_urlsafe(16))


def _line_of(account: ZoneAccount) -> str:
    hashed = bcrypt.hashpw(account.password.encode(), bcrypt.gensalt(_BCRYPT_ROUNDS)).decode()
    comment = f"project={account.project}" if account.project else "no project"
    return f"{account.user}:{hashed} # {comment}\n"


def _toml(settings: Mapping[str, object]) -> str:
    """Write settings as a file has them; numbers, texts, bools and lists look as in JSON."""
    lines: list[str] = []
    last = ""
    for key in sorted(settings):
        section, _, name = key.partition(".")
        if section != last:
            lines.append(f"[{section}]")
            last = section
        lines.append(f"{name} = {json.dumps(settings[key])}")
    return "\n".join([*lines, ""])
