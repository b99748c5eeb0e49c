"""Filters as an explanation calls them: an error of a filter costs a hint, never the refusal.

A decision needs every verdict, so the errors of its filters are errors of the request. A refusal is
true without its hints, and filters may be plugins.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.errors import InvalidInputError
from berth.scheduling.rules.rule import Filter, Query
from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """An error that a rule raised while a refusal was explained.

    `rule` is the name of the filter, or of the search for relaxations.
    """

    rule: str
    # Errors have no equality, and equal inputs must give equal plans.
    error: Exception = field(compare=False)


class GuardedRules:
    """Calls filters on a table, and keeps the errors that they raise.

    Attributes:
        hosts: the table.
    """

    def __init__(self, hosts: HostTable) -> None:
        self.hosts = hosts
        self._failures: dict[tuple[str, type[Exception]], RuleFailure] = {}

    @property
    def failures(self) -> tuple[RuleFailure, ...]:
        """The errors so far, one for each rule and type of error."""
        return tuple(self._failures.values())

    def keep(self, rule: Filter, query: Query, rows: Rows) -> Mask | None:
        """Return a filter's verdict on the rows; after an error, none of them passes.

        Raises:
            InvalidInputError: the request, which a change may have made invalid, is invalid.
        """
        try:
            return rule.keep(self.hosts, query, rows)
        except InvalidInputError:
            raise
        except Exception as error:  # noqa: BLE001 - plugins may raise anything
            self.note(rule.name, error)
            return np.zeros(rows.size, dtype=np.bool_)

    def relax(self, rule: Filter, query: Query, rows: Rows) -> Sequence[Relaxation]:
        """Return the changes that a filter proposes for rows that it removes.

        The result is empty after an error, and for no rows.
        """
        if not rows.size:
            return ()
        try:
            # A plugin may return an iterator, which raises its errors later.
            return tuple(rule.relax(self.hosts, query, rows))
        except Exception as error:  # noqa: BLE001 - plugins may raise anything
            self.note(rule.name, error)
            return ()

    def why(self, rule: Filter, query: Query, row: int) -> str:
        """Return why a filter removes a row, or that its reason is unknown after an error."""
        try:
            return rule.why(self.hosts, query, row)
        except Exception as error:  # noqa: BLE001 - plugins may raise anything
            self.note(rule.name, error)
            return f"the reason is unknown, because the filter failed: {type(error).__name__}"

    def note(self, rule: str, error: Exception) -> None:
        """Keep an error of a rule."""
        self._failures.setdefault((rule, type(error)), RuleFailure(rule, error))
