"""JSON queries: prefix expressions over host attributes, `[">=", "$free_ram_mb", 1024]`.

The grammar is that of Nova's JsonFilter (nova-behaviour.md 1.2, 2.6). A list is an operator and its
arguments. A string `$name.key` refers to a key of a host attribute; an argument that the host lacks
is left out. A comparison compares the first argument with all others, and is false if fewer than
two arguments are left.

An attribute is represented by its few distinct values and a code for each row, so an operator runs
once for each distinct tuple of arguments, not once for each host. Numbers are compared as arrays.
"""

import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from berth.domain.errors import InvalidInputError
from berth.scheduling.rules.attributes import HOST_ATTRIBUTES, ROW_ATTRIBUTES, Values, profile_value
from berth.tables.columnar.bitsets import Mask, Selection, count_of
from berth.tables.host.hosts import HostTable

TEXT_MAX = 16_384
"""The maximum number of characters in a query."""

DEPTH_MAX = 32
"""The maximum number of levels of nested lists in a query."""

TERMS_MAX = 128
"""The maximum number of operators and arguments: each may cost milliseconds on a large fleet."""

_FIELD = "hints.query"

Constant = str | int | float | bool


@dataclass(frozen=True, slots=True)
class JsonAttribute:
    """A reference to an attribute of the host, or to a key inside it."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return "$" + ".".join(self.path)


@dataclass(frozen=True, slots=True)
class JsonOperation:
    """An operator and its arguments; `null` and empty strings are dropped, as no host has them."""

    name: str
    arguments: "tuple[Term, ...]"

    def __str__(self) -> str:
        return json.dumps(_plain(self))


Term = JsonOperation | JsonAttribute | Constant


def _compares(holds: Callable[[Any, Any], object]) -> Callable[[Sequence[object]], bool]:
    def compare(arguments: Sequence[object]) -> bool:
        if len(arguments) < 2:  # noqa: PLR2004 - nothing to compare with
            return False
        try:
            return all(holds(arguments[0], other) for other in arguments[1:])
        except TypeError:
            # A string and a number have no order in Python; such a comparison never holds.
            return False

    return compare


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}

OPERATORS: Mapping[str, Callable[[Sequence[object]], bool]] = {
    **{name: _compares(holds) for name, holds in COMPARISONS.items()},
    "in": lambda arguments: len(arguments) > 1 and arguments[0] in arguments[1:],
}
"""The operators that read the values of those arguments that the host has."""

JUNCTIONS = ("not", "or", "and")
"""The operators that read only the truth values of their arguments."""


def parse(text: str) -> JsonOperation | None:
    """Return the parsed query, or None for an empty list, which every host satisfies.

    Raises:
        InvalidInputError: the text is not a query, is too long, is nested too deeply, or has too
            many operators and arguments.
    """
    if len(text) > TEXT_MAX:
        raise _wrong(f"is {len(text):,} characters long; at most {TEXT_MAX:,} are allowed")
    try:
        document = cast("object", json.loads(text, parse_constant=_no_number))
    except RecursionError as error:
        raise _wrong(f"is nested too deeply; at most {DEPTH_MAX} levels are allowed") from error
    except ValueError as error:
        raise _wrong(f"is not valid JSON: {error}") from error
    if not isinstance(document, list):
        raise _wrong('must be a list, for example [">=", "$free_ram_mb", 1024]')
    terms = iter(range(TERMS_MAX))
    parsed = _term(cast("object", document), terms, 1)
    return parsed if isinstance(parsed, JsonOperation) else None


def demands_of(query: JsonOperation) -> tuple[JsonOperation, ...]:
    """Return the parts of a query that must all hold, each with a reason and relaxation of its own.

    The parts are the operations that an `and` joins; any other query is a single part.
    """
    parts = [one for one in query.arguments if isinstance(one, JsonOperation)]
    is_sum = query.name == "and" and len(parts) == len(query.arguments)
    return tuple(parts) if is_sum else (query,)


def attributes_of(term: Term) -> Iterator[JsonAttribute]:
    """Yield the attributes in a term, including repeated ones."""
    if isinstance(term, JsonAttribute):
        yield term
    elif isinstance(term, JsonOperation):
        for argument in term.arguments:
            yield from attributes_of(argument)


# ---- parsing ------------------------------------------------------------------------------------


def _wrong(reason: str) -> InvalidInputError:
    return InvalidInputError(_FIELD, reason)


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is not a number in JSON")


def _term(document: object, terms: Iterator[int], depth: int) -> Term | None:
    """Return a parsed term, or None for an argument that no host can have."""
    if next(terms, None) is None:
        raise _wrong(f"contains more than {TERMS_MAX:,} operators and arguments; use fewer")
    if depth > DEPTH_MAX + 1:
        raise _wrong(f"is nested too deeply; at most {DEPTH_MAX} levels are allowed")
    match document:
        case list():
            return _list(cast("list[object]", document), terms, depth)
        case str() if document.startswith("$"):
            return JsonAttribute(tuple(document[1:].split(".")))
        case None | "":
            return None
        case float() if not math.isfinite(document):
            raise _wrong("contains a number that is too large; at most 1.8e308 is allowed")
        case str() | int() | float():
            return document
        case _:
            raise _wrong(f"{f'{document!r}'[:80]} must be a list, a string, a number or a boolean")


def _list(items: Sequence[object], terms: Iterator[int], depth: int) -> Term:
    if not items:
        return True
    name = items[0]
    if not isinstance(name, str) or name not in (*OPERATORS, *JUNCTIONS):
        known, shown = " ".join((*OPERATORS, *JUNCTIONS)), f"{name!r}"[:80]
        raise _wrong(f"{shown} is not an operator; begin each list with one of {known}")
    read = (_term(one, terms, depth + 1) for one in items[1:])
    return JsonOperation(name, tuple(one for one in read if one is not None))


def _plain(term: Term) -> object:
    match term:
        case JsonOperation(name, arguments):
            return [name, *map(_plain, arguments)]
        case JsonAttribute():
            return str(term)
        case _:
            return term


# Counting distinct codes is linear in the size of the code space; above this size, sorting is
# faster.
_FEW = 4_096

# Integers up to this size are exact as floats, so comparisons of arrays equal those of Python.
_EXACT_MAX = 2**53


@dataclass(frozen=True, slots=True)
class _Column:
    """The values of an argument on K rows.

    `values` holds the distinct values, with None for a missing one. `codes` holds for each of the
    rows the index of its value.
    """

    values: Sequence[object]
    codes: NDArray[np.intp]

    def at(self, rows: NDArray[np.intp]) -> list[object]:
        """Return the values of a selection of the K rows."""
        return [self.values[code] for code in self.codes[rows].tolist()]

    def spread(self, test: Callable[[object], bool]) -> Mask:
        """Return a test's verdict for each row; the test runs once per distinct value."""
        verdicts = np.array([test(value) for value in self.values], dtype=np.bool_)
        found: Mask = verdicts[self.codes]
        return found


def satisfies(query: JsonOperation, hosts: HostTable, rows: Selection) -> Mask:
    """Return, for each row, whether its host satisfies a query."""
    return _QueryEvaluator(hosts, rows).of(query)


def value_of(attribute: JsonAttribute, hosts: HostTable, row: int) -> object:
    """Return the value of an attribute on one host, or None if the host lacks it."""
    return _attribute(attribute, hosts, np.array([row])).at(np.array([0]))[0]


class _QueryEvaluator:
    """Evaluates a query on the given rows, and looks up each attribute once."""

    def __init__(self, hosts: HostTable, rows: Selection) -> None:
        self._hosts = hosts
        self._rows = rows
        self._count = count_of(rows)
        self._attributes: dict[JsonAttribute, _Column] = {}

    def of(self, query: JsonOperation) -> Mask:
        """Return, for each row, whether the query holds."""
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
        if isinstance(term, JsonOperation):
            return _Column((False, True), self.of(term).astype(np.intp))
        if not isinstance(term, JsonAttribute):
            return _Column((term,), np.zeros(self._count, dtype=np.intp))
        if term not in self._attributes:
            self._attributes[term] = _attribute(term, self._hosts, self._rows)
        return self._attributes[term]

    def _numbers(self, arguments: Sequence[Term]) -> list[Values | float] | None:
        """Return the arguments as arrays and numbers.

        The result is None if one of them is neither, or if there are fewer than two.
        """
        found: list[Values | float] = []
        for one in arguments:
            if (
                isinstance(one, JsonAttribute)
                and len(one.path) == 1
                and one.path[0] in ROW_ATTRIBUTES
            ):
                found.append(ROW_ATTRIBUTES[one.path[0]](self._hosts)[self._rows])
            elif isinstance(one, int | float) and abs(one) <= _EXACT_MAX:
                found.append(one)
            else:
                return None
        return found if len(found) > 1 else None


def _join(name: str, columns: Sequence[_Column], count: int) -> Mask:
    """Apply `and`, `or` or `not` to the truth of the arguments; missing ones are left out."""
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
    """Apply an operator, once to each distinct tuple of arguments."""
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
    """Return the number of distinct codes, and the codes renumbered from 0.

    Args:
        codes: (K,) numbers below `size`.
        size: the size of the code space.
    """
    if size > _FEW:
        found, places = np.unique(codes, return_inverse=True)
        return found.size, places
    seen = np.zeros(size, dtype=np.intp)
    seen[codes] = 1
    place = seen.cumsum() - 1
    return int(seen.sum()), place[codes]


def _attribute(attribute: JsonAttribute, hosts: HostTable, rows: Selection) -> _Column:
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
    """Return the column of a list of JSON values, one for each row."""
    distinct: list[object] = []
    code_of: dict[object, int] = {}
    codes: list[int] = []
    for value in values:
        # As dictionary keys, 1, True and 1.0 would be equal; as JSON text, they differ.
        key = value if isinstance(value, str) else (json.dumps(value, sort_keys=True),)
        code = code_of.setdefault(key, len(distinct))
        if code == len(distinct):
            distinct.append(value)
        codes.append(code)
    return _Column(distinct, np.array(codes, dtype=np.intp))
