"""A real Keystone with users and projects, and a Berth that validates their tokens there."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from berth.lab import loopback
from tests.e2e.conftest import Part, Processes

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-keystone" / "bin" / "python"
MISSING = "There is no .venv-keystone with a real Keystone; `make keystone` makes it."
GUIDE = ROOT / "docs" / "guides" / "keystone.md"
GUIDE_BERTH = "https://berth.example:8774"
PASSWORDS = {
    "admin": "root-word",
    "berth": "service-word",
    "alice": "wonder-word",
    "bob": "builder-word",
    "rita": "reader-word",
}
CACHE_S = 1.0
"""The time after which Berth validates a token again."""
_ROLES = (
    ("alice", "web", "member"),
    ("bob", "shop", "member"),
    ("rita", "web", "reader"),
    ("berth", "service", "service"),
)
_LISTENS = re.compile(r"Berth listens on (http://\S+)\s")
_STOP_S = 20
# Keystone hashes and reads a database at each request, which takes seconds on a busy machine.
_TIMEOUT_S = 60.0


@dataclass
class Keystone:
    """A real Keystone on loopback.

    Attributes:
        process: the process that starts servers.
        port: the port of the server.
    """

    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        """The URL of version 3 of its API."""
        return f"http://127.0.0.1:{self.port}/v3"

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        self._tell("start")

    def stop(self) -> None:
        """Kill the server, if it runs."""
        self._tell("stop")

    def log_in(
        self, user: str, project: str | None = None, *, password: str | None = None
    ) -> httpx.Response:
        """Return the response to a login: by default without scope; `system` is system scope."""
        domain = {"id": "default"}
        who = {"name": user, "domain": domain, "password": password or PASSWORDS[user]}
        scope: Any = {"project": {"name": project, "domain": domain}}
        if project is None:
            scope = "unscoped"
        elif project == "system":
            scope = {"system": {"all": True}}
        identity = {"methods": ["password"], "password": {"user": who}}
        body = {"auth": {"identity": identity, "scope": scope}}
        answer = httpx.post(
            f"{self.url}/auth/tokens", json=body, trust_env=False, timeout=_TIMEOUT_S
        )
        answer.raise_for_status()
        return answer

    def token(self, user: str, project: str | None = None) -> str:
        """Return a new token of a user; see `log_in`."""
        return str(self.log_in(user, project).headers["x-subject-token"])

    def ask(
        self, token: str, method: str, path: str, body: object = None, subject: str | None = None
    ) -> Any:  # noqa: ANN401 - JSON, of any shape
        """Send a request to Keystone, and return the JSON of its response, if any."""
        headers = {"X-Auth-Token": token, **({"X-Subject-Token": subject} if subject else {})}
        answer = httpx.request(
            method,
            self.url + path,
            json=body,
            headers=headers,
            trust_env=False,
            timeout=_TIMEOUT_S,
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def _tell(self, word: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == word


@contextmanager
def running_keystone(folder: Path) -> Iterator[Keystone]:
    """Prepare and start a Keystone with the users and projects of the tests."""
    port = loopback.free_port()
    words = [str(PYTHON), "-m", "tests.e2e.keystone.serving"]
    words += [str(folder), str(port), PASSWORDS["admin"]]
    environ = {name: one for name, one in os.environ.items() if not name.startswith("OS_")}
    with (folder / "stderr").open("wb") as log:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env=environ,
            text=True,
        )
    keystone = Keystone(process, port)
    try:
        keystone.start()
        _fill(keystone)
        yield keystone
    finally:
        process.communicate(timeout=_STOP_S)


def _fill(keystone: Keystone) -> None:
    admin = keystone.token("admin", "admin")
    roles = {one["name"]: one["id"] for one in keystone.ask(admin, "GET", "/roles")["roles"]}
    projects: dict[str, str] = {}
    for user, project, role in _ROLES:
        if project not in projects:
            body = {"project": {"name": project}}
            projects[project] = keystone.ask(admin, "POST", "/projects", body)["project"]["id"]
        person = {"user": {"name": user, "password": PASSWORDS[user]}}
        user_id = keystone.ask(admin, "POST", "/users", person)["user"]["id"]
        path = f"/projects/{projects[project]}/users/{user_id}/roles/{roles[role]}"
        keystone.ask(admin, "PUT", path)


@dataclass
class Cloud:
    """A Keystone, and a Berth that validates tokens there."""

    keystone: Keystone
    part: Part
    url: str

    @property
    def log(self) -> str:
        """The log of Berth."""
        return self.part.log.read_text("utf-8", "replace")

    def ask(
        self, token: str, path: str, method: str = "GET", body: object = None
    ) -> httpx.Response:
        """Send a request to Berth, and return its response."""
        headers = {"X-Auth-Token": token, "OpenStack-API-Version": "compute 2.90"}
        return httpx.request(
            method,
            self.url + path,
            json=body,
            headers=headers,
            trust_env=False,
            timeout=_TIMEOUT_S,
        )

    def status(self, token: str, path: str, method: str = "GET", body: object = None) -> int:
        """Send a request to Berth, and return the status of the response."""
        return self.ask(token, path, method, body).status_code

    def environment(self, user: str, project: str) -> Mapping[str, str]:
        """Return the variables that the guide tells a user to set."""
        block = GUIDE.read_text("utf-8").partition("export OS_AUTH_URL")[2].partition("```")[0]
        given = dict(re.findall(r"^export (\w+)=(\S+)$", block, re.MULTILINE))
        return {
            **given,
            "OS_AUTH_URL": self.keystone.url,
            "OS_USERNAME": user,
            "OS_PASSWORD": PASSWORDS[user],
            "OS_PROJECT_NAME": project,
        }

    def wait_for_log(self, text: str) -> None:
        """Wait until Berth's log contains a text."""
        self.part.wait_for_log(text)


@contextmanager
def running_berth(keystone: Keystone, folder: Path) -> Iterator[Cloud]:
    """Start a Berth with two simulated hosts whose account is `berth`."""
    (folder / "password").write_text(f"{PASSWORDS['berth']}\n", "utf-8")
    images = [{"image_id": "6f0a2f62-7f44-4b3d-8a3d-0c0d0e0f0a01", "name": "cirros"}]
    (folder / "images.json").write_text(json.dumps(images), "utf-8")
    environ = {name: one for name, one in os.environ.items() if not name.startswith("BERTH_")}
    environ |= {
        "BERTH_KEYSTONE_AUTH_URL": keystone.url,
        "BERTH_KEYSTONE_PASSWORD_FILE": str(folder / "password"),
        "BERTH_KEYSTONE_CACHE_S": f"{CACHE_S}",
        "BERTH_KEYSTONE_GRACE_S": "3600",
        "BERTH_KEYSTONE_RETRY_S": "0.5",
        "BERTH_KEYSTONE_TIMEOUT_S": f"{_TIMEOUT_S}",
        "BERTH_LOG_LEVEL": "debug",
    }
    words = ["up", "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    words += ["--fake-hosts", "2", "--auth", "keystone", "--images", str(folder / "images.json")]
    part = Processes(folder).start(*words, environment=environ)
    try:
        part.wait_for_log("Berth listens on")
        found = _LISTENS.search(part.log.read_text("utf-8", "replace"))
        assert found is not None
        yield Cloud(keystone, part, found[1])
    finally:
        part.stop()


def wait_past_the_cache() -> None:
    """Wait until no earlier validation is used any more."""
    time.sleep(CACHE_S + 0.1)
