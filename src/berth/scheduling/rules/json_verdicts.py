"""JSON verdicts: which hosts satisfy a JSON query.

Values are kept as the few distinct ones that there are and a code for each row, so an operator
is applied once to each distinct tuple of arguments, however many hosts there are. Numbers are
compared as arrays.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berth.scheduling.rules.attributes import (
    HOST_ATTRIBUTES,
    ROW_ATTRIBUTES,
    Values,
    profile_value,
)
from berth.scheduling.rules.json_query import (
    COMPARISONS,
    JUNCTIONS,
    OPERATORS,
    Attribute,
    Operation,
    Term,
)
from berth.tables.columnar.bitsets import Mask, Selection, count_of
from berth.tables.host.hosts import HostTable

_FEW = 4_096
_EXACT_MAX = 2**53
"""Numbers up to this are compared alike as integers and as floats."""


@dataclass(frozen=True, slots=True)
class _Column:
    """Distinct values, None for what is missing, and the index of one for each of K rows."""

    values: Sequence[object]
    codes: NDArray[np.intp]

    def at(self, rows: NDArray[np.intp]) -> list[object]:
        """Return the values of some of the K rows."""
        return [self.values[code] for code in self.codes[rows].tolist()]

    def spread(self, test: Callable[[object], bool]) -> Mask:
        """Test each distinct value once, and spread the verdicts over the rows."""
        verdicts = np.array([test(value) for value in self.values], dtype=np.bool_)
        found: Mask = verdicts[self.codes]
        return found


def satisfies(query: Operation, hosts: HostTable, rows: Selection) -> Mask:
    """Tell for each of the rows whether its host satisfies a query."""
    return _Evaluation(hosts, rows).of(query)


def value_of(attribute: Attribute, hosts: HostTable, row: int) -> object:
    """Return what one host has as an attribute; None when it has none."""
    return _attribute(attribute, hosts, np.array([row])).at(np.array([0]))[0]


class _Evaluation:
    """One query on some rows; an attribute that it names often is looked up once."""

    def __init__(self, hosts: HostTable, rows: Selection) -> None:
        self._hosts = hosts
        self._rows = rows
        self._count = count_of(rows)
        self._attributes: dict[Attribute, _Column] = {}

    def of(self, query: Operation) -> Mask:
        """Return the truth of a query for each of the rows."""
        numbers = self._numbers(query.arguments) if query.name in COMPARISONS else None
        if numbers is not None:
            truth = np.ones(self._count, dtype=np.bool_)
            for other in numbers[1:]:
                truth &= COMPARISONS[query.name](numbers[0], other)
            return truth
        columns = [self._column(one) for one in query.arguments]
        if query.name in JUNCTIONS:
            return _join(query.name, columns, self._count)
        return _apply(OPERATORS[query.name], columns, self._count)

    def _column(self, term: Term) -> _Column:
        if isinstance(term, Operation):
            return _Column((False, True), self.of(term).astype(np.intp))
        if not isinstance(term, Attribute):
            return _Column((term,), np.zeros(self._count, dtype=np.intp))
        if term not in self._attributes:
            self._attributes[term] = _attribute(term, self._hosts, self._rows)
        return self._attributes[term]

    def _numbers(self, arguments: Sequence[Term]) -> list[Values | float] | None:
        """Return arguments that can be compared as arrays; None when some of them cannot."""
        found: list[Values | float] = []
        for one in arguments:
            if isinstance(one, Attribute) and len(one.path) == 1 and one.path[0] in ROW_ATTRIBUTES:
                found.append(ROW_ATTRIBUTES[one.path[0]](self._hosts)[self._rows])
            elif isinstance(one, int | float) and abs(one) <= _EXACT_MAX:
                found.append(one)
            else:
                return None
        return found if len(found) > 1 else None


def _join(name: str, columns: Sequence[_Column], count: int) -> Mask:
    """Apply `and`, `or` or `not`, to which only truth counts; what is missing has no say."""
    truth = np.full(count, name == "and")
    for column in {id(one): one for one in columns}.values():
        if name == "and":
            truth &= column.spread(lambda value: value is None or bool(value))
        elif name == "or":
            truth |= column.spread(bool)
        else:
            truth |= column.spread(lambda value: value is not None and not value)
    return truth


def _apply(
    holds: Callable[[Sequence[object]], bool], columns: Sequence[_Column], count: int
) -> Mask:
    """Apply an operator to each distinct tuple of arguments once."""
    if not count or not columns:
        return np.full(count, holds(()))
    size, codes = 1, np.zeros(count, dtype=np.intp)
    for column in columns:
        more = len(column.values)
        if more > 1:
            size, codes = _distinct(codes * more + column.codes, size * more)
    row_of = np.zeros(size, dtype=np.intp)
    row_of[codes] = np.arange(count)
    tuples = zip(*(column.at(row_of) for column in columns), strict=True)
    results = [holds([one for one in each if one is not None]) for each in tuples]
    return np.array(results, dtype=np.bool_)[codes]


def _distinct(codes: NDArray[np.intp], size: int) -> tuple[int, NDArray[np.intp]]:
    """Return how many distinct codes there are, and a number for each, counted from 0.

    Args:
        codes: (K,) numbers below `size`.
        size: of the space that the codes are in.
    """
    if size > _FEW:
        found, places = np.unique(codes, return_inverse=True)
        return found.size, places
    seen = np.zeros(size, dtype=np.intp)
    seen[codes] = 1
    place = seen.cumsum() - 1
    return int(seen.sum()), place[codes]


def _attribute(attribute: Attribute, hosts: HostTable, rows: Selection) -> _Column:
    name, *keys = attribute.path
    if not keys and name in ROW_ATTRIBUTES:
        values, codes = np.unique(ROW_ATTRIBUTES[name](hosts)[rows], return_inverse=True)
        return _Column(values.tolist(), codes)
    if not keys and name in HOST_ATTRIBUTES:
        read = HOST_ATTRIBUTES[name]
        here = np.arange(len(hosts))[rows].tolist()
        return _column([read(hosts, row) if hosts.alive[row] else None for row in here])
    found, places = np.unique(hosts.profile[rows], return_inverse=True)
    numbers: list[int] = found.tolist()
    profiles = [hosts.profiles.all[number] for number in numbers]
    column = _column([one and profile_value(one, attribute.path) for one in profiles])
    return _Column(column.values, column.codes[places])


def _column(values: Sequence[object]) -> _Column:
    """Find out which of some JSON values are distinct."""
    distinct: list[object] = []
    code_of: dict[object, int] = {}
    codes: list[int] = []
    for value in values:
        key = value if isinstance(value, str) else (json.dumps(value, sort_keys=True),)
        code = code_of.setdefault(key, len(distinct))
        if code == len(distinct):
            distinct.append(value)
        codes.append(code)
    return _Column(distinct, np.array(codes, dtype=np.intp))
