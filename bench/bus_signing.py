"""The key with which benchmarks sign messages to the processes that they start."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from berth.adapters.bus.signing import MessageSigner
from berth.adapters.system import LogTelemetry, SystemClock
from berth.config.bus_keys import BusKeyFile


@cache
def key_file() -> Path:
    """Return the path for `bus.key_file`, in a folder that exists until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="berth-bench-keys-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "bus-keys"


@cache
def signer() -> MessageSigner:
    """Return the signer of this process, which creates the file."""
    return MessageSigner(BusKeyFile(key_file(), SystemClock(), LogTelemetry("bench")))
