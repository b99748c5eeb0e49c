"""A real Nova and a real Placement on PostgreSQL."""

import subprocess
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import httpx
import pytest

from berth.lab.loopback import free_port

ROOT: Final = Path(__file__).parents[3]
HERE: Final = Path(__file__).parent
NOVA: Final = ROOT / ".venv-nova" / "bin" / "python"
PLACEMENT: Final = ROOT / ".venv-placement" / "bin" / "python"
HOSTS: Final = ("c1", "c2", "c3")
_SETTLED_S: Final = 120.0

Json = dict[str, Any]


def skip_without_peers() -> None:
    """Skip the test unless both virtualenvs exist and Nova can use PostgreSQL."""
    for python, make in ((NOVA, "make nova"), (PLACEMENT, "make placement-peer")):
        if not python.exists():
            pytest.skip(f"There is no {python.parents[1].name}; `{make}` makes it.")
    found = subprocess.run([NOVA, "-c", "import psycopg2"], check=False, capture_output=True)
    if found.returncode:
        pytest.skip("There is no psycopg2 in .venv-nova; `make nova` installs it.")


@dataclass(frozen=True, slots=True)
class Cloud:
    """A running Nova with its Placement.

    Attributes:
        compute_url: the compute API.
        placement_url: the Placement API.
        databases: the URLs of the databases by name: `api`, `cell0`, `cell1`, `placement`.
    """

    compute_url: str
    placement_url: str
    databases: dict[str, str]

    @property
    def api_words(self) -> list[str]:
        """The options that read the cloud through its APIs."""
        urls = ["--compute-url", self.compute_url, "--placement-url", self.placement_url]
        return ["--from-api", *urls]

    @property
    def database_words(self) -> list[str]:
        """The options that read the cloud from its databases."""
        named = self.databases
        words = ["--from-db", named["api"], "--api-db", named["api"]]
        words += ["--placement-db", named["placement"]]
        return [*words, "--cell-db", named["cell0"], "--cell-db", named["cell1"]]

    def call(
        self, method: str, path: str, body: Json | None = None, user: str = "admin:admin"
    ) -> Json:
        """Send a request to Nova, and return the answer."""
        headers = {"X-Auth-Token": user, "OpenStack-API-Version": "compute 2.100"}
        url = self.compute_url + path
        answer = httpx.request(method, url, json=body, headers=headers, timeout=120)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        found: Json = answer.json() if answer.content else {}
        return found

    def servers(self) -> list[Json]:
        """Return all servers."""
        found: list[Json] = self.call("GET", "/servers/detail?all_tenants=1")["servers"]
        return found

    def settle(self) -> list[Json]:
        """Wait until no server has a task, and return all servers."""
        ends_s = time.monotonic() + _SETTLED_S
        while time.monotonic() < ends_s:
            servers = self.servers()
            if all(one["OS-EXT-STS:task_state"] is None for one in servers):
                return servers
            time.sleep(0.3)
        raise AssertionError(f"servers still have tasks: {self.servers()}")


@contextmanager
def running_cloud(databases: dict[str, str], folder: Path) -> Generator[Cloud]:
    """Run Nova and Placement on empty databases, and kill both at the end."""
    skip_without_peers()
    compute, placement = free_port(), free_port()
    driver = {
        name: url.replace("postgresql://", "postgresql+psycopg2://", 1)
        for name, url in databases.items()
    }
    with ExitStack() as stack:
        words = [PLACEMENT, HERE / "placement_server.py", placement, driver["placement"]]
        stack.enter_context(_process(words, folder / "placement.log"))
        url = f"http://127.0.0.1:{placement}"
        urls = [driver[name] for name in ("api", "cell0", "cell1")]
        words = [NOVA, HERE / "nova_server.py", compute, url, folder, ",".join(HOSTS), *urls]
        stack.enter_context(_process(words, folder / "nova.log"))
        yield Cloud(f"http://127.0.0.1:{compute}/v2.1", url, databases)


@contextmanager
def _process(words: Iterable[object], log: Path) -> Generator[None]:
    """Run a process that prints `ready` when it serves."""
    texts = [str(word) for word in words]
    with (
        log.open("wb") as errors,
        subprocess.Popen(texts, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            _wait_until_ready(process.stdout, log)
            yield
        finally:
            process.kill()


def _wait_until_ready(output: IO[str], log: Path) -> None:
    line = output.readline()
    if not line.startswith("ready"):
        raise AssertionError(f"it did not start: {log.read_text('utf-8')[-2000:]}")
