"""The connection to libvirtd, tested without a libvirtd."""

import asyncio
import threading
from collections.abc import Callable
from typing import cast

import pytest

from berth.adapters.virt.libvirt import connection
from berth.adapters.virt.libvirt.binding import Connect
from berth.adapters.virt.libvirt.connection import LibvirtConnection
from berth.agent.executor.host_context import cause_of
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.errors import DriverError


class Hung(LibvirtConnection):
    """A connection to a libvirtd that accepts calls and does not answer."""

    def __init__(self) -> None:
        super().__init__("qemu:///system", 1, lambda _: None, lambda: None)
        self.answers = threading.Event()

    async def _get(self) -> Connect:
        return cast("Connect", self)

    def _do(self, work: Callable[[Connect], object]) -> object:  # type: ignore[override]
        self.answers.wait()
        return work(cast("Connect", self))


async def test_a_build_that_libvirtd_does_not_answer_took_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A build that failed since libvirtd did not answer has a timeout as its cause."""
    monkeypatch.setattr(connection, "_CALL_S", 0.01)
    hung = Hung()
    try:
        with pytest.raises(DriverError, match="has not answered") as raised:
            await hung.call(lambda _: None)
        error = BuildError(str(raised.value))
        error.__cause__ = raised.value
        assert cause_of(error) is FailureCause.TIMEOUT
    finally:
        hung.answers.set()


async def test_long_calls_keep_no_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long calls, whether awaited or abandoned, do not block other short or long calls."""
    monkeypatch.setattr(connection, "_CALL_S", 5.0)
    hung, go_on = Hung(), threading.Event()
    hung.answers.set()
    calls = [
        asyncio.ensure_future(hung.call(lambda _: go_on.wait(), is_long=True)) for _ in range(9)
    ]
    try:
        await asyncio.sleep(0.01)
        for call in calls[:8]:
            call.cancel()
        assert await hung.call(lambda _: 7) == 7
        assert await hung.call(lambda _: 8, is_long=True) == 8
    finally:
        go_on.set()
    await asyncio.gather(*calls, return_exceptions=True)
