"""The bus and the notifiers that a process gets from its settings, and errors in them."""

import subprocess
import sys
from pathlib import Path

import pytest

from berth.adapters.bus.local import LocalBus
from berth.adapters.bus.rabbitmq import RabbitBus
from berth.adapters.system import LogTelemetry, NoMetrics
from berth.app.messaging import Messaging, connect, local_messaging
from berth.config.settings import BusSettings
from berth.domain.errors import InvalidInputError
from tests.rabbit import bus_signer

_URL = "amqp://user:s3same@broker.invalid/"
_SECURE = "amqps://user:s3same@broker.invalid/"
_WITHOUT_EXTRA = """
import sys
sys.modules["aio_pika"] = None
from berth.cli.main import main
sys.argv = ["berth", "scheduler", "--data", sys.argv[1], "--bus", "amqp://user:s3same@host/"]
sys.exit(main())
"""


def wires_of(settings: BusSettings, *, notifies: bool = True) -> Messaging:
    """Return the messaging of a part."""
    return connect(
        settings, "part", LogTelemetry("part"), NoMetrics(), bus_signer(), notifies=notifies
    )


async def test_without_a_broker_the_bus_ends_with_the_process() -> None:
    """Without a broker a process has a local bus, no notifiers and no loops."""
    messaging = local_messaging(LogTelemetry("part"))
    assert isinstance(messaging.bus, LocalBus)
    assert (messaging.notifier, messaging.common_notifier, messaging.loops) == (None, None, ())
    await messaging.finish()


async def test_each_part_gets_what_it_needs_of_the_broker() -> None:
    """Every process gets a bus, and a notifier if it notifies and the settings enable that."""
    off = wires_of(BusSettings(_URL), notifies=True)
    silent = wires_of(BusSettings(_URL, notifications=True), notifies=False)
    notifying = wires_of(BusSettings(_URL, notifications=True))
    for messaging in (off, silent, notifying):
        assert isinstance(messaging.bus, RabbitBus)
        assert [name for name, _ in messaging.loops] == ["bus"]
    assert (off.notifier, silent.notifier) == (None, None)
    assert notifying.notifier is not None
    assert notifying.common_notifier is not None
    for messaging in (off, silent, notifying):
        await messaging.finish()


@pytest.mark.parametrize("text", [None, "no certificate"])
async def test_certificates_that_cannot_be_read_are_told(tmp_path: Path, text: str | None) -> None:
    """An unreadable CA file is refused at the start, and the error does not show the password."""
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidInputError, match=r"bus\.ca_file") as caught:
        wires_of(BusSettings(_SECURE, ca_file=path))
    assert "s3same" not in str(caught.value)


def test_without_the_extra_it_is_said_what_to_install(tmp_path: Path) -> None:
    """Without the extra, the error says what to install and does not show the password."""
    words = [sys.executable, "-c", _WITHOUT_EXTRA, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode != 0
    assert "pip install 'berth-scheduler[rabbitmq]'" in done.stderr
    assert "s3same" not in done.stderr
    assert "Traceback" not in done.stderr
