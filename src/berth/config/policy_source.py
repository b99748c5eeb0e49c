"""The policy in force: read at the start, read again when its file changes, never lost."""

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
    """Take any policy."""


class PolicySource:
    """Holds the policy in force. A file that is wrong changes nothing but `last_error`.

    Args:
        path: the policy file, or the name of a ready policy, which never changes; None for the
            default policy.
        now_s: tells Unix seconds, for `loaded_at`.
        check: raises PolicyError for a policy that must not come into force here.

    Attributes:
        policy: the policy in force.
        loaded_at: Unix seconds when it was read.
        last_error: why the file as it is now is not in force; None when it is.

    Raises:
        PolicyError: the file is wrong at the start, when there is no other to fall back on.
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
        """Read the file again; tell whether a changed policy came into force."""
        if self._file is None:
            return False
        self._stamp = self._stamp_now()  # before the text, so that a later change is seen
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
        """Look at the file's time and size for ever, and read it again when they change."""
        while True:
            await clock.sleep(interval_s)
            self.reload_if_touched()

    def reload_if_touched(self) -> bool:
        """Reload when the file's time, size or inode is another than when it was last read."""
        return self._stamp_now() != self._stamp and self.reload()

    def _stamp_now(self) -> _Stamp | None:
        if self._file is None:
            return None
        try:
            status = self._file.stat()
        except OSError:
            return None  # a missing file is a change too, and reading it says what is wrong
        return status.st_mtime_ns, status.st_size, status.st_ino


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
