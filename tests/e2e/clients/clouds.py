"""Berth in one authentication mode, and the client settings that the guide gives for it."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import bcrypt

from tests.e2e.conftest import Part, Processes

ROOT = Path(__file__).parents[3]
ENVIRONMENT = ROOT / ".venv-clients"
PYTHON = ENVIRONMENT / "bin" / "python"
MISSING = "There is no .venv-clients with OpenStack's own clients; `make clients` makes it."
GUIDE = ROOT / "docs" / "guides" / "clients.md"

SETTINGS = {
    "identity": "With passwords and tokens",
    "http_basic": "With HTTP Basic",
    "none": "Without authentication",
    "any password": "With passwords and tokens",
}
"""The headings of the guide, by the mode in which their settings are tested."""
_AUTH = {"none": "noauth", "any password": "noauth"}
_GUIDE_URL = "http://127.0.0.1:8774"
_PASSWORDS = {"admin": "secret", "alice": "wonder"}
_IMAGES = [
    {
        "image_id": "6f0a2f62-7f44-4b3d-8a3d-0c0d0e0f0a01",
        "name": "cirros",
        "min_disk_gb": 1,
        "properties": {"hw_disk_bus": "virtio"},
    },
    {"image_id": "6f0a2f62-7f44-4b3d-8a3d-0c0d0e0f0a02", "name": "huge", "min_memory_mb": 10**6},
]
_LISTENS = re.compile(r"Berth listens on (http://\S+)\s")


@dataclass(frozen=True)
class Cloud:
    """A running Berth.

    Attributes:
        mode: one of `SETTINGS`.
        url: its address.
    """

    mode: str
    url: str

    @property
    def openrc(self) -> dict[str, str]:
        """The environment variables that the guide tells users to set."""
        return dict(re.findall(r"^export (\w+)=(\S+)$", self._block("sh"), re.MULTILINE))

    @property
    def clouds_yaml(self) -> str:
        """The clouds.yaml that the guide tells users to write, with a cloud `berth`."""
        return self._block("yaml")

    def environment(self, program: str, user: str = "admin") -> dict[str, str]:
        """Return the environment variables with which a user of `users_file` runs a program."""
        variables = self.openrc
        if program == "nova" and "OS_ENDPOINT" in variables:
            # As the guide says: nova needs one URL, and names that it insists on.
            dummies = {"OS_PROJECT_NAME": "admin", "OS_AUTH_URL": self.url, "OS_USERNAME": "admin"}
            variables = {**dummies, **variables, "OS_ENDPOINT": f"{self.url}/v2.1"}
        if user != "admin":
            variables |= {"OS_USERNAME": user, "OS_PASSWORD": _PASSWORDS[user]}
            if "OS_PROJECT_NAME" in variables:
                variables["OS_PROJECT_NAME"] = "web"
        return variables

    def _block(self, language: str) -> str:
        section = GUIDE.read_text("utf-8").partition(f"## {SETTINGS[self.mode]}\n")[2]
        block = section.partition(f"```{language}\n")[2].partition("```")[0]
        assert block, f"the guide has no {language} for {self.mode}"
        return block.replace(_GUIDE_URL, self.url)


@contextmanager
def running(mode: str, folder: Path) -> Iterator[Cloud]:
    """Start a Berth with four simulated hosts, and stop it at the end."""
    auth = _AUTH.get(mode, mode)
    (folder / "images.json").write_text(json.dumps(_IMAGES), "utf-8")
    (folder / "users").write_text(users_file(), "utf-8")
    words = ["up", "--listen", "127.0.0.1:0"]
    words += ["--data", str(folder / "data"), "--fake-hosts", "4", "--auth", auth]
    words += ["--images", "images.json", "--htpasswd", "users"]
    part = Processes(folder).start(*words, environment=_without("BERTH_"))
    try:
        yield Cloud(mode, _url(part))
    finally:
        part.stop()


def client_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of this process without settings of clients, plus `more`."""
    return {**_without("OS_"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **more}


def _without(prefix: str) -> dict[str, str]:
    return {name: one for name, one in os.environ.items() if not name.startswith(prefix)}


def users_file() -> str:
    """Return the content of a file of users, with hashes that are cheap to check."""
    hashes = {
        user: bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        for user, password in _PASSWORDS.items()
    }
    return f"admin:{hashes['admin']}\nalice:{hashes['alice']} # project=web\n"


def _url(part: Part) -> str:
    part.wait_for_log("Berth listens on")
    found = _LISTENS.search(part.log.read_text("utf-8", "replace"))
    assert found is not None
    return found[1]
