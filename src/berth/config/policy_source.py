"""The policy in force, which is read at the start and again when its file changes."""

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


def _ignore(*_: object) -> None:
    """Ignore a change."""


class PolicySource:
    """The policy in force. An invalid file changes only `last_error`.

    Args:
        path: the policy file, or the name of a ready policy, which never changes; None for the
            default policy.
        now_s: returns the Unix time in seconds, for `loaded_at`.
        check: raises PolicyError for a policy that this process must not use.

    `on_change` and `on_refused` are called when the file has changed: with the new policy and the
    digest of its text, or with the reason why the file is invalid.

    Attributes:
        path: the policy file or the name of a ready policy; None for the default policy.
        policy: the policy in force.
        loaded_at: the time when that policy was read, in Unix seconds.
        last_error: the reason why the current file is not in force, or None if it is.

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
        self.on_change: Callable[[Policy, str], None] = _ignore
        self.on_refused: Callable[[str], None] = _ignore
        self._now_s = now_s
        self._stamp = self._stamp_now()
        text = read_policy_text(path)
        self.policy: Policy = parse_policy(text, source_name(path))
        check(self.policy, source_name(path))
        self.loaded_at = now_s()
        self._in_force = _digest(text)

    def reload(self) -> bool:
        """Read the file again, and return whether a different policy is now in force."""
        if self._file is None:
            return False
        # The stamp is taken before the text is read, so a write in between is noticed next time.
        self._stamp = self._stamp_now()
        try:
            text = read_policy_text(self.path)
            digest = _digest(text)
            changed = digest != self._in_force
            policy = parse_policy(text, source_name(self.path)) if changed else self.policy
            self._check(policy, source_name(self.path))
        except PolicyError as error:
            self.last_error = str(error)
            self.on_refused(self.last_error)
            return False
        self.last_error = None
        if not changed:
            return False
        self.policy, self.loaded_at, self._in_force = policy, self._now_s(), digest
        self.on_change(policy, digest)
        return True

    async def watch(self, clock: Clock, interval_s: float) -> None:
        """Check the status of the file every `interval_s` seconds, and reload it on a change.

        This never returns.
        """
        # Polling works on every file system; inotify misses changes on network mounts, and in
        # containers where the file is a symbolic link that is replaced.
        while True:
            await clock.sleep(interval_s)
            self.reload_if_touched()

    def reload_if_touched(self) -> bool:
        """Reload the file if its time, size or inode has changed; see `reload` for the result."""
        return self._stamp_now() != self._stamp and self.reload()

    def _stamp_now(self) -> _Stamp | None:
        if self._file is None:
            return None
        try:
            status = self._file.stat()
        except OSError:
            return None  # a missing file is also a change; reading it reports the reason
        return status.st_mtime_ns, status.st_size, status.st_ino


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
