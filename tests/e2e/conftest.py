"""Fixtures that start real `berth` processes, each on its own port, and stop them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from berth.lab import loopback
from tests.forks import Fork, forks

_READY_S = 120.0
_STOP_S = 20.0


@dataclass
class Part:
    """One running `berth` process."""

    process: subprocess.Popen[bytes] | Fork
    log: Path

    def wait_for_log(self, text: str) -> None:
        """Wait until its log contains a text.

        Raises:
            AssertionError: the process ended, or it took too long; its log is in the message.
        """
        deadline_s = time.monotonic() + _READY_S
        while text not in self.log.read_text("utf-8", "replace"):
            assert self.process.poll() is None, self.log.read_text("utf-8", "replace")
            assert time.monotonic() < deadline_s, self.log.read_text("utf-8", "replace")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the process with SIGKILL, as abruptly as a power cut."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int | None:
        """Stop the process with SIGTERM, or SIGKILL after 20 seconds, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode


@dataclass
class Processes:
    """Starts `berth` processes for one test and stops the remaining ones at its end.

    Attributes:
        folder: the working directory of the processes, with their logs.
        programs: whether each process loads Berth itself, as that of a user does; otherwise it is
            a fork of one that has.
    """

    folder: Path
    programs: bool = False
    started: list[Part] = field(default_factory=list[Part])

    def start(
        self,
        *words: str,
        within: Sequence[str] = (),
        namespace: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Part:
        """Start `berth WORDS…` with its log in the test's folder.

        Args:
            words: the words of the command.
            within: put before the command, which makes it a program instead of a fork.
            namespace: the name of the network namespace of a fork; empty for that of the tests.
            environment: the environment of the process; None for that of this one.
        """
        environ = os.environ if environment is None else environment
        log = self.folder / f"{len(self.started)}-{words[0]}.log"
        log.touch()
        if within or self.programs:
            command = [*within, sys.executable, "-m", "berth.cli.main", *words]
            process = self._run(command, environ, log)
        else:
            process = forks().start(words, environ, self.folder, log, namespace=namespace)
        part = Part(process, log)
        self.started.append(part)
        return part

    def _run(
        self, words: Sequence[str], environ: Mapping[str, str], log: Path
    ) -> "subprocess.Popen[bytes] | Fork":
        with log.open("wb") as out:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env=environ,
            )

    def stop_all(self) -> None:
        """Stop the processes that still run."""
        for part in reversed(self.started):
            part.stop()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Yield the processes of this test; stop them at its end."""
    running = Processes(tmp_path)
    yield running
    running.stop_all()


@pytest.fixture
def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    return loopback.free_port()


@dataclass
class Service:
    """A client of a running Berth."""

    url: str

    def wait_until(self, ready: Callable[[dict[str, Any]], bool], part: Part) -> None:
        """Wait until `ready` accepts the status of the service.

        Raises:
            AssertionError: the process ended, or it took too long; its log is in the message.
        """
        deadline_s = time.monotonic() + _READY_S
        while time.monotonic() < deadline_s and part.process.poll() is None:
            try:
                answer = httpx.get(f"{self.url}/berth/v1/status", trust_env=False)
                if answer.status_code == httpx.codes.OK and ready(answer.json()):
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        logs = "\n".join(
            f"--- {log.name}\n{log.read_text('utf-8', 'replace')[-3000:]}"
            for log in sorted(part.log.parent.glob("*.log"))
        )
        raise AssertionError(f"not ready:\n{logs}")

    def get(self, path: str, **params: str) -> Any:  # noqa: ANN401 - JSON, of any shape
        """Return the JSON document at a path.

        Raises:
            HTTPStatusError: any status of 400 or more.
        """
        answer = httpx.get(self.url + path, params=params, trust_env=False, timeout=60.0)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: object, **headers: str) -> Any:  # noqa: ANN401 - see `get`
        """POST a JSON document and return that of the response; None if it has no content."""
        version = {"OpenStack-API-Version": "compute 2.96", **headers}
        answer = httpx.post(
            self.url + path, json=body, headers=version, trust_env=False, timeout=60.0
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def flavor(self, name: str = "small", vcpus: int = 2, ram: int = 2048) -> str:
        """Create a flavor and return its id, which is its name."""
        body = {"id": name, "name": name, "vcpus": vcpus, "ram": ram, "disk": 10}
        self.post("/v2.1/flavors", {"flavor": body})
        return name

    def create(self, flavor: str, key: str, count: int = 1) -> str:
        """Create servers under an idempotency key and return the first one's uuid."""
        server = {
            "name": key,
            "flavorRef": flavor,
            "networks": "none",
            "min_count": count,
            "max_count": count,
        }
        answer = self.post("/v2.1/servers", {"server": server}, **{"Idempotency-Key": key})
        uuid: str = answer["server"]["id"]
        return uuid

    def wait_for_status(self, uuid: str, *wanted: str) -> dict[str, Any]:
        """Wait until a server has one of the statuses and return it."""
        deadline_s = time.monotonic() + _READY_S
        while True:
            server: dict[str, Any] = self.get(f"/v2.1/servers/{uuid}")["server"]
            if server["status"] in wanted:
                return server
            assert time.monotonic() < deadline_s, server
            time.sleep(0.02)


@pytest.fixture
def service(free_port: int) -> Service:
    """Return a client of the service that the test starts on `free_port`."""
    return Service(f"http://127.0.0.1:{free_port}")
