"""Limits the capacity requests and dry runs that a project may have in progress."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from berth.domain.errors import UnavailableError

_EACH_MAX: Final = 2


class InquiryLimit:
    """Admits a few capacity requests and dry runs of each project at a time.

    Each such request causes a count or a decision in every zone of the tree.

    Args:
        each_max: the number of requests that a project may have in progress in this process.
    """

    def __init__(self, *, each_max: int = _EACH_MAX) -> None:
        self._each_max = each_max
        self._open = Counter[str]()

    @contextmanager
    def admit(self, project_id: str) -> Generator[None]:
        """Count a request of a project as in progress.

        Raises:
            UnavailableError: the project has too many in progress.
        """
        if self._open[project_id] >= self._each_max:
            raise UnavailableError(
                f"The project has {self._each_max} capacity requests and dry runs in progress, "
                "which is the maximum. Try again when one has ended."
            )
        self._open[project_id] += 1
        try:
            yield
        finally:
            self._open[project_id] -= 1
            if not self._open[project_id]:
                # Otherwise the ids of all projects would stay in memory.
                del self._open[project_id]
