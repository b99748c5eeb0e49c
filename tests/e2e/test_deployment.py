"""The processes that the files in `deploy/` describe start, work and stop as described."""

import os
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.lab import loopback
from berth.lab.certificates import write_certificate
from tests.forks import Fork, forks, run_berth
from tests.unit.config.test_deployment import COMMANDS, DEPLOY, SERVICES, UNITS, unit_of

pytestmark = [pytest.mark.postgres, pytest.mark.rabbitmq]

_READY_S = 180.0
_BERTH = [sys.executable, "-m", "berth.cli.main"]
_PASSWORD = "correct horse"
_ADMIN = ("admin", _PASSWORD)
_VERSION = {"OpenStack-API-Version": "compute 2.96"}


def _free_address() -> str:
    return f"{loopback.HOST}:{loopback.free_port()}"


@dataclass
class Started:
    """A process and the address of its probes."""

    process: Fork
    probes: str
    log: Path
    stop_s: float = 30.0

    def wait(self) -> None:
        """Wait until the process is ready."""
        deadline_s = time.monotonic() + _READY_S
        while True:
            try:
                if httpx.get(f"http://{self.probes}/readyz", trust_env=False).is_success:
                    return
            except httpx.TransportError:
                pass
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline_s, self.log.read_text()
            time.sleep(0.05)

    def stop(self) -> int:
        """Stop the process with SIGTERM and return its exit code; raise if it takes too long."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(self.stop_s)


@dataclass
class Machine:
    """A folder for the files of a test, its ledger and broker, and the processes started there."""

    folder: Path
    ledger: str
    broker: RabbitBroker
    api: str = field(default_factory=_free_address)
    certificate: Path | None = None
    started: list[Started] = field(default_factory=list[Started])

    def run(self, *words: str, given: str = "", **more: str) -> str:
        """Run a `berth` command of an operator, which must succeed, and return what it prints."""
        environ = self.environ({**self.control, **more})
        done = run_berth(*words, environment=environ, folder=self.folder, given=given)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"{'http' if self.certificate is None else 'https'}://{self.api}"

    @property
    def control(self) -> dict[str, str]:
        """The addresses of ledger and broker, which only the control plane has."""
        return {
            "BERTH_LEDGER_URL": self.ledger,
            "BERTH_BUS_URL": self.broker.url,
            "BERTH_BUS_PREFIX": self.broker.prefix,
        }

    def environ(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process, with the settings in `more` only."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("BERTH_")}
        return {**kept, **more}

    def start(self, name: str, words: list[str], more: Mapping[str, str]) -> Started:
        """Start a command with probes at a free address and return it."""
        log, probes = self.folder / f"{name}.log", _free_address()
        environ = self.environ({**more, "BERTH_METRICS_LISTEN": probes})
        process = forks().start(words, environ, self.folder, log)
        self.started.append(Started(process, probes, log))
        return self.started[-1]

    def try_out(self, auth: tuple[str, str] | None) -> None:
        """Create a server through the API and wait until it runs on a host."""
        tls = True if self.certificate is None else _trusting(self.certificate)
        with httpx.Client(
            base_url=self.url,
            auth=auth,
            headers=_VERSION,
            timeout=60.0,
            trust_env=False,
            verify=tls,
        ) as client:
            flavor = {"id": "small", "name": "small", "vcpus": 1, "ram": 512, "disk": 1}
            client.post("/v2.1/flavors", json={"flavor": flavor}).raise_for_status()
            _wait_for_host(client)
            server = {"name": "first", "flavorRef": "small", "networks": "none"}
            made = client.post("/v2.1/servers", json={"server": server}).raise_for_status()
            path = f"/v2.1/servers/{made.json()['server']['id']}"
            deadline_s = time.monotonic() + _READY_S
            while (found := client.get(path).json()["server"])["status"] == "BUILD":
                assert time.monotonic() < deadline_s, found
                time.sleep(0.05)
            assert found["status"] == "ACTIVE", found


def _trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


def _wait_for_host(client: httpx.Client) -> None:
    deadline_s = time.monotonic() + _READY_S
    while not client.get("/berth/v1/status").json()["hosts"]["total"]:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.fixture
def machine(tmp_path: Path, bare_postgres_url: str, broker: RabbitBroker) -> Iterator[Machine]:
    """Yield a machine; kill its processes after the test."""
    machine = Machine(tmp_path, bare_postgres_url, broker)
    yield machine
    for one in machine.started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    """`systemd-analyze verify` accepts the units, with the path of an existing program."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze")
    program = tmp_path / "berth"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copies = [tmp_path / path.name for path in UNITS]
    for path, copy in zip(UNITS, copies, strict=True):
        copy.write_text(path.read_text().replace("/opt/berth/bin/berth", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, copies)],
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in done.stderr.splitlines() if "berth" in line]
    assert (done.returncode, told) == (0, []), done.stderr


def _localized(text: str, machine: Machine) -> str:
    """Return a text of a deployment file with the paths and the API's address of a test."""
    for folder in ("/etc/berth", "/var/lib/berth"):
        text = text.replace(folder, str(machine.folder))
    return text.replace("https://control.example:8774", machine.url)


def _enroll_in_container(machine: Machine, environ: Mapping[str, str]) -> None:
    """Run the service `enroll` of the compose file, with this checkout's `berth`, twice."""
    program = machine.folder / "berth"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(_BERTH)} "$@"\n')
    program.chmod(0o755)
    service = SERVICES["enroll"]
    script = service["command"][0].replace("$$", "$").replace("/opt/berth/bin/berth", str(program))
    for _ in range(2):  # the second run finds the keys of the first
        subprocess.run(
            [*service["entrypoint"], script],
            env=machine.environ({**environ, "BERTH_URL": machine.url}),
            cwd=machine.folder,
            check=True,
            stdin=subprocess.DEVNULL,
        )


def _unit_words(path: Path, machine: Machine) -> tuple[list[str], float]:
    """Return the arguments of a unit, with its paths in a folder, and its time to stop.

    The agent uses the fake driver, because the machine of a test runs no guests.
    """
    service = unit_of(path)["Service"]
    text = _localized(service["ExecStart"], machine).replace("%H", "this-host")
    _, *words = shlex.split(text.replace("--driver qemu", "--driver fake"))
    return words, float(service["TimeoutStopSec"])


@pytest.mark.timeout(600)
def test_the_units_make_a_cloud(machine: Machine) -> None:
    """The units, started after the steps of the guide, run a server and stop with code 0."""
    folder = machine.folder
    machine.certificate = folder / "api.pem"
    write_certificate(machine.certificate, folder / "api.key")
    (folder / "ca.pem").write_text(machine.certificate.read_text())
    for name in ("berth.toml", "agent.toml"):
        (folder / name).write_text(_localized((DEPLOY / name).read_text(), machine))
    admin = ("user", "add", "--htpasswd", str(folder / "users"), "--password-stdin", "admin")
    machine.run(*admin, given=f"{_PASSWORD}\n")
    machine.run("db", "upgrade")
    more = {"BERTH_API_LISTEN": machine.api, "BERTH_LEDGER_DATA_DIR": str(folder)}
    agents, control = (
        [path for path in UNITS if ("EnvironmentFile" in unit_of(path)["Service"]) is is_control]
        for is_control in (False, True)
    )
    assert [path.stem for path in agents] == ["berth-agent"]
    for path in control:
        words, stop_s = _unit_words(path, machine)
        machine.start(path.stem, words, {**machine.control, **more}).stop_s = stop_s
    for one in machine.started:
        one.wait()
    client = {"BERTH_URL": machine.url, "BERTH_CA_FILE": str(folder / "ca.pem")}
    login = {"BERTH_USER": _ADMIN[0], "BERTH_PASSWORD": _ADMIN[1]}
    token = machine.run("host", "enroll", "this-host", **client, **login)
    machine.run(
        *("agent-enroll", "--host", "this-host", "--gateway", machine.url),
        *("--gateway-ca", str(folder / "ca.pem"), "--key", str(folder / "agent.key")),
        BERTH_ENROLL_TOKEN=token,
    )
    for path in agents:
        words, stop_s = _unit_words(path, machine)
        machine.start(path.stem, words, {}).stop_s = stop_s
    machine.started[-1].wait()
    machine.try_out(_ADMIN)
    assert [one.stop() for one in machine.started] == [0, 0, 0]


@pytest.mark.timeout(600)
def test_the_containers_make_a_cloud(machine: Machine) -> None:
    """The services of the compose file, with the test's ledger and broker, run a server."""
    control = [name for name in COMMANDS if "network_mode" not in SERVICES[name]]
    assert control == ["migrate", "api", "scheduler"]
    machine.run(*COMMANDS["migrate"])
    for name in control[1:]:
        words = [word.replace("0.0.0.0:8774", machine.api) for word in COMMANDS[name]]
        environ = {**SERVICES[name]["environment"], **machine.control}
        machine.start(name, words, environ)
    for one in machine.started:
        one.wait()
    agents = {
        name: _localized(text, machine).replace("127.0.0.1:8774", machine.api)
        for name, text in SERVICES["agents"]["environment"].items()
    }
    _enroll_in_container(machine, agents)
    machine.start("agents", COMMANDS["agents"], agents).wait()
    machine.try_out(None)
    assert {one.stop() for one in machine.started} == {0}
