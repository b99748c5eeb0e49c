"""A cloud as the guide documents it: agents reach the API over HTTPS, and have no ledger."""

import json
import os
import signal
import ssl
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from yarl import URL

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.cli.main import main
from berth.lab import loopback
from berth.lab.certificates import write_certificate
from tests.forks import Fork, forks, run_berth

WITHIN_S = 120.0
"""The longest wait; on an idle machine everything happens far sooner."""
DOWN_TIME_S = 12.0
"""The API saves heartbeats every 5 seconds, so a host that is alive is never older than half."""
HOSTS = ("rack1-01", "rack1-02", "rack1-03")
_STOP_S = 30.0
_PASSWORD = "correct horse"
_POLICY = """
name = "separate"
[[filters]]
name = "ComputeFilter"
service_down_time_s = {down_time_s}
[[filters]]
name = "ResourcesFilter"
"""


@dataclass
class Running:
    """A process and its log."""

    process: Fork
    log: Path

    def text(self) -> str:
        """Return the log."""
        return self.log.read_text("utf-8", "replace")

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Stop the process with SIGTERM and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_S)


@dataclass
class SeparateCloud:
    """The processes of a cloud, each with a folder of its own, and the operator's commands."""

    folder: Path
    ledger: str
    broker: RabbitBroker | None = None
    """Through it the agents reach the API, if it is given."""
    url: str = field(default_factory=lambda: f"https://{loopback.HOST}:{loopback.free_port()}")
    down_time_s: float = DOWN_TIME_S
    running: dict[str, Running] = field(default_factory=dict[str, Running])
    ended: list[Running] = field(default_factory=list[Running])
    relays: dict[str, str] = field(default_factory=dict[str, str])
    """The URL at which the agent of a host reaches the broker, for hosts behind a relay."""

    @property
    def certificate(self) -> Path:
        """The API's certificate, which signs itself and is also the CA of its clients."""
        return self.folder / "control" / "api.pem"

    def set_up(self) -> None:
        """Create the files of the control plane, and start its processes."""
        control = self.folder / "control"
        control.mkdir()
        write_certificate(self.certificate, control / "api.key")
        (control / "policy.toml").write_text(_POLICY.format(down_time_s=self.down_time_s))
        words = ("user", "add", "--htpasswd", "users", "--password-stdin", "admin")
        run_berth(
            *words, environment=_environ({}), folder=control, given=_PASSWORD
        ).check_returncode()
        if self.broker is not None:
            (control / "host.password").write_text(f"{URL(self.broker.url).password}\n")
            (control / "host.password").chmod(0o600)
        self.start_api()
        self.start_scheduler()
        self.wait_until(self.answers, "the API answers")

    def start_scheduler(self) -> None:
        """Start the scheduler."""
        self._start("scheduler", ["scheduler"], self._control_settings())

    def start_api(self) -> None:
        """Start the API, at the same address each time."""
        settings = {
            **self._control_settings(),
            "BERTH_API_LISTEN": self.url.removeprefix("https://"),
            "BERTH_API_TLS_CERTIFICATE": str(self.certificate),
            "BERTH_API_TLS_KEY": str(self.certificate.with_name("api.key")),
            "BERTH_AUTH_MODE": "identity",
            "BERTH_AUTH_HTPASSWD": str(self.certificate.with_name("users")),
        }
        self._start("api", ["api"], settings)

    def enroll(self, host: str) -> None:
        """Exchange a token for the key of a host, on the host."""
        token = self.operate("host", "enroll", host).strip()
        folder = self.folder / host
        folder.mkdir(exist_ok=True)
        log = self.folder / f"enrolment-of-{host}.log"
        settings = _environ({"BERTH_ENROLL_TOKEN": token})
        enrolling = forks().start(["agent-enroll", *self._enrolment(host)], settings, folder, log)
        assert enrolling.wait(WITHIN_S) == 0, log.read_text()

    def start_agent(self, host: str) -> None:
        """Start the agent of a host, which gets no setting of the ledger and of a broker."""
        settings = {
            "BERTH_AGENT_HEARTBEAT_INTERVAL_S": "0.5",
            **({} if self.broker is None else {"BERTH_BUS_PREFIX": self.broker.prefix}),
            "BERTH_AGENT_AUDIT_INTERVAL_S": "2",
            "BERTH_AGENT_RECONCILE_INTERVAL_S": "2",
            "BERTH_VIRT_FAKE_NETWORK_DIR": str(self.folder / "network"),
        }
        self._start(host, ["agent", *self._gateway(host)], settings)

    def operate(self, *words: str) -> str:
        """Run an operator's command, which must succeed, and return what it prints."""
        code, out, told = self._run(words)
        assert code == 0, f"{words} ended with {code}\n{out}{told}\n{self.logs()}"
        return out

    def answers(self) -> bool:
        """Return whether the API answers."""
        return self._run(["service", "list"])[0] == 0

    def ask(self, *words: str) -> Any:  # noqa: ANN401 - JSON, of any shape
        """Return the document that a command prints with `--json`."""
        return json.loads(self.operate(*words, "--json"))

    def server(self, name: str) -> dict[str, Any]:
        """Return a server as the API shows it."""
        found: dict[str, Any] = self.ask("server", "show", name)
        return found

    def host_of(self, name: str) -> str:
        """Return the host of a server."""
        return str(self.server(name)["OS-EXT-SRV-ATTR:host"])

    def create(self, name: str) -> str:
        """Create a server that runs, and return its host."""
        self.operate("server", "create", name, "--flavor", "small", "--wait")
        return self.host_of(name)

    def flavor(self, name: str) -> str:
        """Return the id of a flavor."""
        found = self.ask("flavor", "list")["flavors"]
        return str(next(one["id"] for one in found if one["name"] == name))

    def client(self) -> httpx.Client:
        """Return an administrator's HTTP client of the API."""
        auth = ("admin", _PASSWORD)
        return httpx.Client(
            base_url=self.url, verify=self.tls(), auth=auth, trust_env=False, timeout=30
        )

    def tls(self) -> ssl.SSLContext:
        """Return the context of a client that trusts the API's certificate."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def metrics(self) -> str:
        """Return the metrics of the API."""
        with self.client() as http:
            return http.get("/metrics").raise_for_status().text

    def has_console(self, name: str) -> bool:
        """Return whether the agent of a server's host shows its console; False while it is away."""
        uuid = self.server(name)["id"]
        with self.client() as http:
            body: dict[str, object] = {"os-getConsoleOutput": {}}
            answer = http.post(f"/v2.1/servers/{uuid}/action", json=body)
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return False
        return f"uuid={uuid}" in answer.raise_for_status().json()["output"]

    def keys_of(self, host: str) -> list[str]:
        """Return the public keys of a host."""
        found = self.ask("host", "keys")["host_keys"]
        return next(one["keys"] for one in found if one["host"] == host)

    def sessions_of(self, host: str) -> int:
        """Return how many sessions the agent of a host has begun."""
        return self.running[host].text().count("gateway_connected")

    def network_files(self) -> list[Path]:
        """Return what is announced or stored in the folder that the simulated hosts share."""
        return [path for path in (self.folder / "network").rglob("*") if path.is_file()]

    def audit(self) -> Any:  # noqa: ANN401 - JSON, of any shape
        """Return what an audit of all records finds, however young they are."""
        words = ["audit", "--grace", "0", "--task-age", "0", "--request-age", "0", "--json"]
        return json.loads(self._run(words)[1])["discrepancies"]

    def is_empty(self, host: str) -> bool:
        """Return whether nothing is charged to a host, not even a guest left behind."""
        inventories = self.ask("host", "show", host)["inventories"]
        return not any(one["used"] for one in inventories.values())

    def hosts_up(self) -> list[str]:
        """Return the hosts whose agents are alive."""
        services = self.ask("service", "list")["services"]
        return sorted(one["host"] for one in services if one["state"] == "up")

    def wait_until(self, is_so: Callable[[], object], what: str) -> None:
        """Wait until `is_so` returns something true.

        Raises:
            AssertionError: it takes too long, or a process has ended; the logs are in the message.
        """
        deadline_s = time.monotonic() + WITHIN_S
        while not is_so():
            dead = [name for name, one in self.running.items() if one.process.poll() is not None]
            assert not dead, f"{dead} ended before {what}\n{self.logs()}"
            assert time.monotonic() < deadline_s, f"too late: {what}\n{self.logs()}"
            time.sleep(0.05)

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL."""
        one = self.running.pop(name)
        self.ended.append(one)
        one.kill()

    def stop(self, name: str) -> int:
        """Stop a process with SIGTERM and return its exit code."""
        one = self.running.pop(name)
        self.ended.append(one)
        return one.stop()

    def logs(self) -> str:
        """Return the ends of all logs."""
        parts = [*self.ended, *self.running.values()]
        return "\n".join(f"--- {one.log.name}\n{one.text()[-3000:]}" for one in parts)

    def close(self) -> None:
        """Kill what still runs."""
        for name in list(self.running):
            self.kill(name)

    def _run(self, words: Sequence[str]) -> tuple[int, str, str]:
        """Run a command in this process; return its exit code, its output and its errors."""
        settings = {
            "BERTH_URL": self.url,
            "BERTH_CA_FILE": str(self.certificate),
            "BERTH_USER": "admin",
            "BERTH_PASSWORD": _PASSWORD,
        }
        out, told = StringIO(), StringIO()
        with (
            patch.dict(os.environ, _environ(settings), clear=True),
            redirect_stdout(out),
            redirect_stderr(told),
        ):
            code = main(words)
        return code, out.getvalue(), told.getvalue()

    def _control_settings(self) -> dict[str, str]:
        broker = self.broker
        over_broker = (
            {}
            if broker is None
            else {
                "BERTH_BUS_URL": broker.url,
                "BERTH_BUS_PREFIX": broker.prefix,
                "BERTH_GATEWAY_RABBITMQ": "true",
            }
        )
        return {
            **over_broker,
            "BERTH_LEDGER_URL": self.ledger,
            "BERTH_LEDGER_DATA_DIR": str(self.folder / "control"),
            "BERTH_POLICY_PATH": str(self.folder / "control" / "policy.toml"),
        }

    def _enrolment(self, host: str) -> list[str]:
        key, certificate = str(self.folder / host / "agent.key"), str(self.certificate)
        return ["--host", host, "--gateway", self.url, "--gateway-ca", certificate, "--key", key]

    def _gateway(self, host: str) -> list[str]:
        if self.broker is None:
            return self._enrolment(host)
        # The path of each agent leads through a relay of its own, if the test has made one.
        url = URL(self.relays.get(host, self.broker.url)).with_password(None)
        password = str(self.certificate.with_name("host.password"))
        key = str(self.folder / host / "agent.key")
        words = ["--gateway", str(url), "--gateway-password", password]
        return ["--host", host, *words, "--key", key]

    def _start(self, name: str, words: list[str], settings: Mapping[str, str]) -> None:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        log = self.folder / f"{len(self.ended) + len(self.running)}-{name}.log"
        log.touch()
        process = forks().start(words, _environ(settings), folder, log)
        self.running[name] = Running(process, log)


@contextmanager
def separate_cloud(
    folder: Path,
    ledger: str,
    broker: RabbitBroker | None = None,
    relays: Mapping[str, str] | None = None,
    *,
    down_time_s: float = DOWN_TIME_S,
) -> Generator[SeparateCloud]:
    """Yield a cloud with three hosts that are up, and flavors; kill its processes afterwards."""
    cloud = SeparateCloud(
        folder, ledger, broker, relays=dict(relays or {}), down_time_s=down_time_s
    )
    try:
        cloud.set_up()
        for host in HOSTS:
            cloud.enroll(host)
            cloud.start_agent(host)
        for name, vcpus in (("small", 1), ("large", 2)):
            size = ("--vcpus", str(vcpus), "--memory-mb", "512", "--disk-gb", "1")
            cloud.operate("flavor", "create", name, *size)
        cloud.wait_until(lambda: cloud.hosts_up() == list(HOSTS), "all hosts are up")
        yield cloud
    finally:
        cloud.close()


def _environ(settings: Mapping[str, str]) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("BERTH_")}
    return {**kept, **settings}
