"""The policy in force: read at the start and again when its file changes."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from berth.config.policy_file import parse_policy, read_policy_text, source_name
from berth.config.ready_policies import is_ready
from berth.domain.errors import PolicyError
from berth.ports.clock import Clock
from berth.scheduling.evaluation.policy import Policy

_Stamp = tuple[int, int, int]


def _accept(_policy: Policy, _source: str) -> None:
    """Accept every policy."""


class PolicySource:
    """Holds the policy in force. An invalid file changes nothing but `last_error`.

    Args:
        path: the policy file, or the name of a ready policy, which never changes; None for the
            default policy.
        now_s: returns the Unix time in seconds, for `loaded_at`.
        check: raises PolicyError for a policy that must not be used by this process.

    Attributes:
        path: the argument.
        policy: the policy in force.
        loaded_at: when it was read, in Unix seconds.
        last_error: why the current file is not in force, or None when it is.

    Raises:
        PolicyError: the file is invalid at the start, when there is no earlier policy.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        now_s: Callable[[], float] = time.time,
        check: Callable[[Policy, str], None] = _accept,
    ) -> None:
        self.path = path
        self._check = check
        self._file = None if path is None or is_ready(path) else path
        self.last_error: str | None = None
        self._now_s = now_s
        self._stamp = self._stamp_now()
        text = read_policy_text(path)
        self.policy: Policy = parse_policy(text, source_name(path))
        check(self.policy, source_name(path))
        self.loaded_at = now_s()
        self._in_force = _digest(text)

    def reload(self) -> bool:
        """Read the file again, and return whether a changed policy is in force now."""
        if self._file is None:
            return False
        # The stamp is taken before the text is read, so a write in between is noticed later.
        self._stamp = self._stamp_now()
        try:
            text = read_policy_text(self.path)
            digest = _digest(text)
            changed = digest != self._in_force
            policy = parse_policy(text, source_name(self.path)) if changed else self.policy
            self._check(policy, source_name(self.path))
        except PolicyError as error:
            self.last_error = str(error)
            return False
        self.last_error = None
        if not changed:
            return False
        self.policy, self.loaded_at, self._in_force = policy, self._now_s(), digest
        return True

    async def watch(self, clock: Clock, interval_s: float) -> None:
        """Check the file's status at every interval, for ever, and read it when it changes."""
        # Polling works on every file system; inotify misses changes on network mounts, and in
        # containers where the file is a symbolic link that is replaced.
        while True:
            await clock.sleep(interval_s)
            self.reload_if_touched()

    def reload_if_touched(self) -> bool:
        """Reload the file if its time, size or inode has changed, and return as `reload` does."""
        return self._stamp_now() != self._stamp and self.reload()

    def _stamp_now(self) -> _Stamp | None:
        if self._file is None:
            return None
        try:
            status = self._file.stat()
        except OSError:
            return None  # a missing file is a change, too; reading it reports the reason
        return status.st_mtime_ns, status.st_size, status.st_ino


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
