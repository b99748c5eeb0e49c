"""A made-up cloud behind the client, and the command line in this process."""

from collections.abc import Callable
from dataclasses import dataclass

import httpx
import pytest

from berth.cli.main import main
from tests.unit.cli.cloud import Cloud


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give tables room, and take away what the developer's own shell says."""
    monkeypatch.setenv("COLUMNS", "240")
    for name in ("BERTH_URL", "BERTH_USER", "BERTH_PASSWORD", "BERTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `berth WORDS...`."""

    def run_words(*words: object) -> Ended:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run_words


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """A cloud that answers instead of the network."""
    made = Cloud()
    transport = httpx.MockTransport(made.answer)

    def client(**options: object) -> httpx.Client:
        made.options = options
        return real(**{**options, "transport": transport})  # type: ignore[arg-type]

    real = httpx.Client
    monkeypatch.setattr(httpx, "Client", client)
    return made
