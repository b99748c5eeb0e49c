"""The watch with which followers of the feed wait for a newer version."""

import asyncio


class VersionWatch:
    """The newest version that this process knows of, and the callers that wait for a newer one."""

    def __init__(self, version: int = 0) -> None:
        self._version = version
        self._waiters: dict[asyncio.Future[bool], int] = {}

    @property
    def version(self) -> int:
        """The newest known version."""
        return self._version

    @property
    def has_waiters(self) -> bool:
        """Whether any caller is waiting."""
        return bool(self._waiters)

    def advance(self, version: int) -> None:
        """Record a version if it is newer, and wake the callers that waited for it."""
        if version <= self._version:
            return
        self._version = version
        for waiter, after in self._waiters.items():
            if version > after and not waiter.done():
                waiter.set_result(True)

    def reset(self, version: int) -> None:
        """Record a version as the newest one, even if it is below the version known so far.

        A store that was unreachable may have been restored from a backup. If the old version stayed
        the newest, followers would be woken again and again for versions that the store lacks.
        """
        self._version = min(self._version, version)
        self.advance(version)

    def close(self) -> None:
        """Wake all waiters; their calls of `wait` return False."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(False)

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Wait for a version above `after`; return False on timeout or if the watch is closed."""
        if self._version > after:
            return True
        if timeout_s <= 0:
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = after
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter
        # The version may have advanced in the same turn of the event loop as the timeout.
        except TimeoutError:
            return self._version > after
        finally:
            self._waiters.pop(waiter, None)
