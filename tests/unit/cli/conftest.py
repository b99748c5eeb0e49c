"""A simulated cloud for the client, and a runner of commands in this process."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import httpx
import pytest

from berth.cli.main import main
from tests.unit.cli.cloud import Cloud
from tests.unit.cli.terminal import PseudoTerminal


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]
OpenTerminal = Callable[..., PseudoTerminal]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give tables enough width, and hide the variables and contexts of the developer."""
    monkeypatch.setenv("COLUMNS", "240")
    for name in [name for name in os.environ if name.startswith(("BERTH_", "OS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `berth WORDS...` in this process."""

    def run_words(*words: object) -> Ended:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run_words


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """Return a cloud that answers the requests of the client."""
    # The client's annotations name the class that is replaced below, so it must be loaded before.
    import_module("berth.client")
    made = Cloud()
    transport = httpx.MockTransport(made.answer)

    def client(**options: object) -> httpx.Client:
        made.options = options
        return real(**{**options, "transport": transport})  # type: ignore[arg-type]

    real = httpx.Client
    monkeypatch.setattr(httpx, "Client", client)
    return made


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenTerminal]:
    """Return a function that puts a pseudo-terminal in place of standard streams."""
    opened: list[PseudoTerminal] = []

    def open_terminal(*names: str, width: int = 80, height: int = 24) -> PseudoTerminal:
        opened.append(PseudoTerminal(monkeypatch, *names, width=width, height=height))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()
