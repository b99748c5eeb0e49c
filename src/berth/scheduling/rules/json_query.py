"""JSON queries: prefix expressions over host attributes, `[">=", "$free_ram_mb", 1024]`.

The grammar is that of Nova's JsonFilter (nova-behaviour.md 1.2, 2.6). A list is an operator and its
arguments; a text `$name.key` is an attribute of the host, opened at keys; an argument that the
host does not have is left out. A comparison holds the first argument against all others and is
false when fewer than two are left.
"""

import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from berth.domain.errors import InvalidInputError

TEXT_MAX = 16_384
"""Most characters of a query."""

DEPTH_MAX = 32
"""Deepest list of a query."""

TERMS_MAX = 128
"""Most operators and arguments of a query: on a large fleet each may cost some milliseconds."""

_FIELD = "hints.query"

Constant = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Attribute:
    """What stands for a host's attribute, or what is inside it."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return "$" + ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its arguments; those that no host has are left out already."""

    name: str
    arguments: "tuple[Term, ...]"

    def __str__(self) -> str:
        return json.dumps(_plain(self))


Term = Operation | Attribute | Constant


def _compares(holds: Callable[[Any, Any], object]) -> Callable[[Sequence[object]], bool]:
    def compare(arguments: Sequence[object]) -> bool:
        if len(arguments) < 2:  # noqa: PLR2004 - nothing to compare with
            return False
        try:
            return all(holds(arguments[0], other) for other in arguments[1:])
        except TypeError:  # a text and a number have no order
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
"""Operators on the arguments that are there."""

JUNCTIONS = ("not", "or", "and")
"""Operators that only ask whether their arguments are true."""


def parse(text: str) -> Operation | None:
    """Read a query; an empty list is None, which every host satisfies.

    Raises:
        InvalidInputError: it is no query, or larger or deeper than is allowed.
    """
    if len(text) > TEXT_MAX:
        raise _wrong(f"is {len(text):,} characters long; at most {TEXT_MAX:,} are taken")
    try:
        document = cast("object", json.loads(text, parse_constant=_no_number))
    except RecursionError as error:
        raise _wrong(f"is nested too deeply; at most {DEPTH_MAX} lists are taken") from error
    except ValueError as error:
        raise _wrong(f"is not valid JSON: {error}") from error
    if not isinstance(document, list):
        raise _wrong('must be a list, [">=", "$free_ram_mb", 1024] say')
    terms = iter(range(TERMS_MAX))
    parsed = _term(cast("object", document), terms, 1)
    return parsed if isinstance(parsed, Operation) else None


def demands_of(query: Operation) -> tuple[Operation, ...]:
    """Return what has to hold for the query to hold, part by part."""
    parts = [one for one in query.arguments if isinstance(one, Operation)]
    is_sum = query.name == "and" and len(parts) == len(query.arguments)
    return tuple(parts) if is_sum else (query,)


def attributes_of(term: Term) -> Iterator[Attribute]:
    """Yield the attributes that a query names."""
    if isinstance(term, Attribute):
        yield term
    elif isinstance(term, Operation):
        for argument in term.arguments:
            yield from attributes_of(argument)


# ---- reading ------------------------------------------------------------------------------------


def _wrong(reason: str) -> InvalidInputError:
    return InvalidInputError(_FIELD, reason)


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number")


def _term(document: object, terms: Iterator[int], depth: int) -> Term | None:
    """Read one term; None is an argument that no host has."""
    if next(terms, None) is None:
        raise _wrong(f"has more than {TERMS_MAX:,} operators and arguments")
    if depth > DEPTH_MAX + 1:
        raise _wrong(f"is nested too deeply; at most {DEPTH_MAX} lists are taken")
    match document:
        case list():
            return _list(cast("list[object]", document), terms, depth)
        case str() if document.startswith("$"):
            return Attribute(tuple(document[1:].split(".")))
        case None | "":
            return None
        case float() if not math.isfinite(document):
            raise _wrong("has a number that is too large")
        case str() | int() | float():
            return document
        case _:
            raise _wrong(f"{f'{document!r}'[:80]} must be a list, a text, a number or a boolean")


def _list(items: Sequence[object], terms: Iterator[int], depth: int) -> Term:
    if not items:
        return True
    name = items[0]
    if not isinstance(name, str) or name not in (*OPERATORS, *JUNCTIONS):
        known, shown = " ".join((*OPERATORS, *JUNCTIONS)), f"{name!r}"[:80]
        raise _wrong(f"{shown} is no operator; begin each list with one of {known}")
    read = (_term(one, terms, depth + 1) for one in items[1:])
    return Operation(name, tuple(one for one in read if one is not None))


def _plain(term: Term) -> object:
    match term:
        case Operation(name, arguments):
            return [name, *map(_plain, arguments)]
        case Attribute():
            return str(term)
        case _:
            return term
