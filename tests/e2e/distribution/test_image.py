"""The container image: its steps succeed, and it starts Berth as its own user."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from berth.lab import loopback
from tests.e2e.distribution.containerfile import built, copy_context, environ, steps_of

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[3]
CONTAINERFILE = ROOT / "deploy" / "compose" / "Containerfile"
_READY_S = 120.0


def _engine() -> str | None:
    """Return a container engine that works on this machine."""
    for name in ("docker", "podman"):
        if shutil.which(name):
            done = subprocess.run([name, "info"], capture_output=True, check=False, timeout=60)
            if done.returncode == 0:
                return name
    return None


def _can_mount() -> bool:
    probe = ["unshare", "--mount", "true"]
    return os.geteuid() == 0 and subprocess.run(probe, check=False).returncode == 0


@contextmanager
def _built_by(engine: str) -> Iterator[Sequence[str]]:
    """Build the image with an engine, and yield the command that runs it."""
    tag = f"berth-test-{os.getpid()}"
    build = [engine, "build", "-f", str(CONTAINERFILE), "-t", tag, str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    try:
        yield [engine, "run", "--rm", "--network=host", tag]
    finally:
        subprocess.run([engine, "rmi", "-f", tag], check=False, capture_output=True)


@contextmanager
def _built_here() -> Iterator[Sequence[str]]:
    """Execute the steps without an engine, and yield the command that runs the result."""
    with built(CONTAINERFILE, ROOT) as stage:
        yield stage.within(stage.entrypoint)


@contextmanager
def _image() -> Iterator[Sequence[str]]:
    if (engine := _engine()) is not None:
        with _built_by(engine) as command:
            yield command
    elif _can_mount():
        with _built_here() as command:
            yield command
    else:
        pytest.skip("neither a container engine nor the right to mount file systems")


def test_the_image_is_built_and_starts(tmp_path: Path) -> None:
    """Berth answers from the image, where it runs with the kernel and writes only as its user."""
    address = f"{loopback.HOST}:{loopback.free_port()}"
    log = tmp_path / "image.log"
    with _image() as command:
        shown = subprocess.run(
            [*command, "--version"], env=environ(), capture_output=True, text=True, check=True
        )
        assert "with kernel" in shown.stdout
        up = [*command, "up", "--listen", address, "--data", "data", "--fake-hosts", "2"]
        with log.open("wb") as file:
            process = subprocess.Popen(up, env=environ(), stdout=file, stderr=file)
        try:
            _wait_until_it_answers(address, process, log)
        finally:
            process.terminate()
            process.wait(60)


def test_the_context_leaves_out_environments_and_history(tmp_path: Path) -> None:
    """What a developer has in the checkout does not reach the image."""
    context = tmp_path / "context"
    for name in (".git", ".venv", ".venv-nova", ".cache", "dist", "src/berth/__pycache__"):
        (context / name).mkdir(parents=True)
    (context / "src" / "berth" / "__init__.py").touch()
    shutil.copy(ROOT / ".dockerignore", context)
    copy_context(context, tmp_path / "copied")
    left = {str(path.relative_to(tmp_path / "copied")) for path in (tmp_path / "copied").rglob("*")}
    assert left == {".dockerignore", "src", "src/berth", "src/berth/__init__.py"}


def test_each_instruction_is_understood() -> None:
    """The file has two stages, and continues lines as the engine does."""
    steps = steps_of(CONTAINERFILE.read_text("utf-8"))
    assert [name for name, _ in steps if name == "FROM"] == ["FROM", "FROM"]
    assert all("\\" not in rest for _, rest in steps)


def _wait_until_it_answers(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + _READY_S
    while True:
        try:
            if httpx.get(f"http://{address}/readyz", trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline_s, log.read_text()
        time.sleep(0.1)
