"""Waiting for a version: what followers of the feed sleep on."""

import asyncio


class VersionWatch:
    """Knows the newest version that was heard of and wakes those who wait for it."""

    def __init__(self, version: int = 0) -> None:
        self._version = version
        self._waiters: dict[asyncio.Future[bool], int] = {}

    @property
    def version(self) -> int:
        """The newest version that was heard of."""
        return self._version

    @property
    def has_waiters(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiters)

    def advance(self, version: int) -> None:
        """Take note of a version and wake those who waited for one like it."""
        if version <= self._version:
            return
        self._version = version
        for waiter, after in self._waiters.items():
            if version > after and not waiter.done():
                waiter.set_result(True)

    def reset(self, version: int) -> None:
        """Take a version for the newest one, also where it is below what was heard of.

        A store that was away may have been restored from a backup. With the old version in mind
        those who follow it would be told of news, and find none, without a pause.
        """
        self._version = min(self._version, version)
        self.advance(version)

    def close(self) -> None:
        """Wake everybody, with the news that nothing more will come."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(False)

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Wait until there is a version above `after`; False when the time ran out."""
        if self._version > after:
            return True
        if timeout_s <= 0:
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = after
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter
        except TimeoutError:
            return self._version > after
        finally:
            self._waiters.pop(waiter, None)
