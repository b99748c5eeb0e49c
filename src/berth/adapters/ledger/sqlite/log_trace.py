"""Log trace: whether anybody may have written to a database of SQLite, without asking SQLite.

Each commit goes into the write-ahead log, and leaves that file with another date or length. To look
there costs a tenth of a question to the database.
"""

import time
from pathlib import Path
from typing import Final

_SETTLED_NS: Final = 50_000_000
"""Dates of files go in steps of some milliseconds: what was written twice within one shows once."""
_ASK_NS: Final = 500_000_000
"""So often it is said to have changed in any case: nothing is to depend on dates alone."""


class LogTrace:
    """Remembers what the write-ahead log of a database looked like.

    Args:
        database: its file.
    """

    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._seen: tuple[int, int, int] | None = None
        self._asked_ns = 0

    def may_have_changed(self) -> bool:
        """Tell whether there may be something new since the last time this was True."""
        now_ns = time.time_ns()
        try:
            found = self._log.stat()
        except OSError:
            return True
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen == self._seen and 0 <= now_ns - self._asked_ns < _ASK_NS:
            return False
        # A write that comes now could leave a date that is as new as this one unchanged.
        self._seen = seen if now_ns - found.st_mtime_ns > _SETTLED_NS else None
        self._asked_ns = now_ns
        return True
