"""What `make dist` builds can be installed without the checkout, and works there."""

import json
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest

from berth import __version__
from berth.lab import loopback
from berth.lab.certificates import write_certificate
from tests.documents import missing_lines, run_steps, steps_of

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[3]
_READY_S = 60.0
_PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the distributions once, and return their folder."""
    folder = tmp_path_factory.mktemp("dist")
    command = ["make", "-s", "dist", f"DIST={folder}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def wheel_of(dist: Path, name: str) -> Path:
    """Return the wheel of a distribution."""
    (found,) = dist.glob(f"{name}-[0-9]*.whl")
    return found


class Environment:
    """A virtual environment with the wheel and its locked dependencies, outside the checkout."""

    def __init__(self, folder: Path, dist: Path) -> None:
        self.bin = folder / "env" / "bin"
        self.home = folder / "home"
        self.home.mkdir()
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", "env"], cwd=folder, check=True
        )
        locked = str(ROOT / "requirements" / "runtime.lock")
        self.pip("install", "--no-deps", "--require-hashes", "-r", locked)
        self.pip("install", "--no-deps", "--no-index", str(wheel_of(dist, "berth_scheduler")))

    def pip(self, *words: str) -> str:
        """Run pip of this Python on the environment, which has none of its own."""
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        command += ["--python", str(self.bin / "python"), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def environ(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a process that sees neither the checkout nor other settings."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("BERTH_", "PYTHON", "VIRTUAL_ENV"))
        }
        return {**kept, "HOME": str(self.home), **settings}

    def berth(self, *words: str, given: str = "", **settings: str) -> str:
        """Run the installed command, which must succeed, and return what it prints."""
        done = subprocess.run(
            [str(self.bin / "berth"), *words],
            cwd=self.home,
            env=self.environ(settings),
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, *words: str, **settings: str) -> Iterator[None]:
        """Run a service while the block runs; it must still run then, and stop by SIGTERM."""
        log = self.home / f"{words[0]}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(self.bin / "berth"), *words],
                cwd=self.home,
                env=self.environ(settings),
                stdout=file,
                stderr=file,
            )
        try:
            yield
            assert process.poll() is None, log.read_text()
        except BaseException:
            sys.stderr.write(log.read_text())
            raise
        finally:
            process.terminate()
            process.wait(_READY_S)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, dist: Path) -> Environment:
    """Install the wheel once."""
    return Environment(tmp_path_factory.mktemp("installed"), dist)


def test_the_wheel_has_what_an_installation_needs_and_no_tests(dist: Path) -> None:
    """The wheel has all files of the package, but not the suites, which have their own wheel."""
    with ZipFile(wheel_of(dist, "berth_scheduler")) as wheel:
        names = set(wheel.namelist())
    shared = f"berth_scheduler-{__version__}.data/data/share/berth"
    for path in ("py.typed", "config/policies/default.toml", "adapters/ledger/migrations/env.py"):
        assert f"berth/{path}" in names
    for path in (
        "berth.toml",
        "agent.toml",
        "systemd/berth-agent.service",
        "prometheus/berth.rules.yml",
        "grafana/berth-overview.json",
    ):
        assert f"{shared}/{path}" in names
    share = shared.removesuffix("/berth")
    for path in (
        "man/man1/berth.1",
        "man/man1/berth-server.1",
        "bash-completion/completions/berth",
        "zsh/site-functions/_berth",
        "fish/vendor_completions.d/berth.fish",
    ):
        assert f"{share}/{path}" in names
    package = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "berth").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    suites = {name for name in package if name.startswith("berth/testing/")}
    assert {name for name in names if name.startswith("berth/")} == package - suites
    with ZipFile(wheel_of(dist, "berth_scheduler_testing")) as wheel:
        assert {name for name in wheel.namelist() if name.startswith("berth/")} == suites


def test_the_source_distribution_builds_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    """A wheel built from the source distribution equals the wheel built from the checkout."""
    with tarfile.open(dist / f"berth_scheduler-{__version__}.tar.gz") as source:
        source.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    for path in ("Makefile", "tests/tidy/test_sizes.py", "kernel/berth_kernel.c", "CHANGELOG.md"):
        assert (folder / path).is_file()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    assert wheel_of(tmp_path, "berth_scheduler").read_bytes() == (
        wheel_of(dist, "berth_scheduler").read_bytes()
    )


def test_the_lock_file_satisfies_the_wheel(environment: Environment) -> None:
    """The locked versions are those that the metadata of the wheel requires."""
    environment.pip("check")
    assert environment.berth("--version").startswith(f"berth {__version__}")


def test_the_demo_runs_without_the_checkout(environment: Environment) -> None:
    """The demo places its workload, and finds no lost claims."""
    words = ("demo", "--hosts", "20", "--requests", "100", "--json")
    report = json.loads(environment.berth(*words))
    assert report["instances_placed"] > 0
    assert report["faults"] == []


def test_an_api_and_an_agent_run_a_server(environment: Environment, tmp_path: Path) -> None:
    """From enrolment to a running server, with the installed command alone."""
    certificate, key = tmp_path / "api.pem", tmp_path / "api.key"
    write_certificate(certificate, key)
    users, agent_key = str(tmp_path / "users"), str(tmp_path / "agent.key")
    environment.berth(
        "user", "add", "--htpasswd", users, "--password-stdin", "admin", given=_PASSWORD
    )
    address = f"{loopback.HOST}:{loopback.free_port()}"
    url = f"https://{address}"
    client = {
        "BERTH_URL": url,
        "BERTH_CA_FILE": str(certificate),
        "BERTH_USER": "admin",
        "BERTH_PASSWORD": _PASSWORD,
    }
    control = {
        "BERTH_LEDGER_DATA_DIR": str(tmp_path / "data"),
        "BERTH_API_LISTEN": address,
        "BERTH_API_TLS_CERTIFICATE": str(certificate),
        "BERTH_API_TLS_KEY": str(key),
        "BERTH_AUTH_MODE": "identity",
        "BERTH_AUTH_HTPASSWD": users,
    }
    gateway = ["--host", "rack1-01", "--gateway", url, "--gateway-ca", str(certificate)]
    gateway += ["--key", agent_key]
    with environment.running("api", **control):
        _wait_until(partial(_answers, url, certificate))
        with environment.running(
            "scheduler", BERTH_LEDGER_DATA_DIR=control["BERTH_LEDGER_DATA_DIR"]
        ):
            token = environment.berth("host", "enroll", "rack1-01", **client).strip()
            environment.berth("agent-enroll", *gateway, BERTH_ENROLL_TOKEN=token)
            with environment.running("agent", *gateway):
                _wait_until(partial(_is_up, environment, "rack1-01", client))
                flavor = ("--vcpus", "1", "--memory-mb", "512", "--disk-gb", "1")
                environment.berth("flavor", "create", "small", *flavor, **client)
                environment.berth(
                    "server", "create", "web", "--flavor", "small", "--wait", **client
                )
                shown = json.loads(environment.berth("server", "show", "web", "--json", **client))
    assert shown["status"] == "ACTIVE"
    assert shown["OS-EXT-SRV-ATTR:host"] == "rack1-01"


def test_the_tutorial_works_as_printed(environment: Environment, tmp_path: Path) -> None:
    """The commands of the tutorial, in order and in one shell, succeed and print what it shows.

    The wheel is already installed, and variables choose a port that is free.
    """
    install, *steps = steps_of((ROOT / "docs" / "tutorial.md").read_text("utf-8"))
    assert install.script.startswith("pipx install dist/berth_scheduler-")
    address = f"{loopback.HOST}:{loopback.free_port()}"
    variables = environment.environ({"BERTH_API_LISTEN": address, "BERTH_URL": f"http://{address}"})
    variables["PATH"] = f"{environment.bin}{os.pathsep}{variables['PATH']}"
    outputs = run_steps(steps, tmp_path, variables, timeout_s=200.0)
    missing = [
        f"{line}\n--- not in\n{output}"
        for step, output in zip(steps, outputs, strict=True)
        for line in missing_lines(step, output)
    ]
    assert missing == []
    assert list(tmp_path.iterdir()) == []


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _READY_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def _is_up(environment: Environment, host: str, client: Mapping[str, str]) -> bool:
    services = json.loads(environment.berth("service", "list", "--json", **client))["services"]
    return any(one["host"] == host and one["state"] == "up" for one in services)


def _answers(url: str, certificate: Path) -> bool:
    context = ssl.create_default_context(cafile=str(certificate))
    try:
        return httpx.get(f"{url}/healthz", verify=context, trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler, so there is no kernel")
def test_the_wheel_of_the_kernel_is_used(environment: Environment, dist: Path) -> None:
    """The kernel is a wheel of its own, and an installed one is used."""
    assert "without" in environment.berth("--version")
    environment.pip("install", "--no-index", str(wheel_of(dist, "berth_scheduler_kernel")))
    assert "without" not in environment.berth("--version")
