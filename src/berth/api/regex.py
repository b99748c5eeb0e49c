"""Regular expressions that match in bounded time, for filters that clients send.

Python's `re` backtracks, so that a client could send a pattern that takes years. Here all possible
positions in the pattern advance together with the text (Thompson, 1968), and the steps are counted.

The syntax is the common part of POSIX and Perl: literals, `.`, `[a-z]`, `[^a-z]`, `^`, `$`, `|`,
groups, `*`, `+`, `?`, `{2,3}` and the escapes below. Case is ignored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from berth.domain.errors import InvalidInputError

_LENGTH_MAX: Final = 255
_NESTED_MAX: Final = 20
_REPEATED_MAX: Final = 255
_STATES_MAX: Final = 1_000
# About a third of a second on one core, for all texts together that one pattern is applied to.
_STEPS_MAX: Final = 1_000_000
_CACHED_MAX: Final = 4_096
_SPECIAL: Final = frozenset(".[]^$|()*+?{}\\")

_Accepts = Callable[[str], bool]


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CLASSES: Final[dict[str, _Accepts]] = {"d": str.isdecimal, "w": _is_word, "s": str.isspace}


@dataclass(frozen=True, slots=True)
class _Char:
    accepts: _Accepts


@dataclass(frozen=True, slots=True)
class _Anchor:
    is_end: bool


@dataclass(frozen=True, slots=True)
class _Sequence:
    items: "tuple[_Node, ...]"


@dataclass(frozen=True, slots=True)
class _Choice:
    options: "tuple[_Node, ...]"


@dataclass(frozen=True, slots=True)
class _Repeat:
    item: "_Node"
    low: int
    high: int | None


_Node = _Char | _Anchor | _Sequence | _Choice | _Repeat


def matcher_of(pattern: str, field: str) -> Callable[[str], bool]:
    """Return a function that tests whether any part of a text matches a pattern.

    The returned function also raises InvalidInputError if its calls take too many steps in total.

    Args:
        pattern: the regular expression.
        field: the field that an error names.

    Raises:
        InvalidInputError: the pattern is malformed, too long or too complex, or it contains syntax
            that this module does not have.
    """
    if len(pattern) > _LENGTH_MAX:
        raise InvalidInputError(
            field, f"has {len(pattern)} characters; at most {_LENGTH_MAX} are allowed"
        )
    if not _SPECIAL & set(pattern):
        folded = pattern.casefold()
        return lambda text: folded in text.casefold()
    automaton = _Automaton(field)
    automaton.start = automaton.add(_Parser(pattern, field).node(), automaton.accept)
    return automaton.is_in


class _Parser:
    """A recursive descent parser."""

    def __init__(self, text: str, field: str) -> None:
        self._text = text
        self._field = field
        self._at = 0
        self._nested = 0

    def node(self) -> _Node:
        """Return the whole pattern as a tree."""
        found = self._choice()
        if self._at < len(self._text):
            raise self._error("has a ) without a (")
        return found

    def _choice(self) -> _Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else _Choice(tuple(options))

    def _sequence(self) -> _Node:
        items: list[_Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            items.append(self._repeated())
        return _Sequence(tuple(items))

    def _repeated(self) -> _Node:
        item = self._atom()
        bounds = self._bounds()
        if bounds is None:
            return item
        if isinstance(item, _Anchor):
            raise self._error("repeats an anchor")
        # Greediness does not affect whether a text matches.
        self._take("?")
        if self._bounds() is not None:
            raise self._error("repeats a repetition; use a group")
        return _Repeat(item, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        # As in Perl, braces that do not form bounds stand for themselves.
        if not (_is_number(low) and (not high or _is_number(high))):
            return None
        self._at = end + 1
        first = int(low)
        last = (int(high) if high else None) if comma else first
        if max(first, last or 0) > _REPEATED_MAX:
            raise self._error(f"repeats an item more than {_REPEATED_MAX} times")
        if last is not None and last < first:
            raise self._error("has a repetition whose bounds are in the wrong order")
        return first, last

    def _atom(self) -> _Node:
        char = self._text[self._at]
        self._at += 1
        match char:
            case "(":
                return self._group()
            case "[":
                return _Char(self._set())
            case "^" | "$":
                return _Anchor(char == "$")
            case ".":
                return _Char(lambda _: True)
            case "\\":
                return _Char(self._escape())
            case "*" | "+" | "?":
                raise self._error(
                    f"has a {char} that repeats nothing; write \\{char} for the character"
                )
            case _:
                return _literal(char)

    def _group(self) -> _Node:
        self._nested += 1
        if self._nested > _NESTED_MAX:
            raise self._error(f"has groups that are nested more than {_NESTED_MAX} deep")
        if self._peek() == "?":
            if self._text[self._at : self._at + 2] != "?:":
                raise self._error("has a group of a kind that Berth does not support")
            self._at += 2
        found = self._choice()
        if not self._take(")"):
            raise self._error("has a ( without a )")
        self._nested -= 1
        return found

    def _escape(self) -> _Accepts:
        if self._at == len(self._text):
            raise self._error("ends with a backslash; write two for the character")
        char = self._text[self._at]
        self._at += 1
        known = _CLASSES.get(char.lower())
        if known is not None:
            return known if char.islower() else _negated(known)
        if char.isalnum():
            raise self._error(f"has the escape \\{char}, which Berth does not support")
        return _same_as(char)

    def _set(self) -> _Accepts:
        negated = self._take("^")
        tests: list[_Accepts] = []
        while True:
            char = self._peek()
            if not char:
                raise self._error("has a [ without a ]")
            # A bracket that comes first stands for itself.
            if char == "]" and tests:
                self._at += 1
                break
            tests.append(self._member())
        if negated:
            return lambda one: not any(test(one) for test in tests)
        return lambda one: any(test(one) for test in tests)

    def _member(self) -> _Accepts:
        first = self._text[self._at]
        if self._text.startswith("[:", self._at):
            raise self._error("has a named class of characters, which Berth does not support")
        self._at += 1
        if first == "\\":
            test = self._escape()
            if self._text[self._at - 1].lower() in _CLASSES:
                return test
            first = self._text[self._at - 1]
        rest = self._text[self._at : self._at + 2]
        if len(rest) < len("-z") or rest[0] != "-" or rest[1] == "]":
            return _same_as(first)
        self._at += 2
        last = rest[1]
        if last == "\\":
            self._escape()
            last = self._text[self._at - 1]
            if last.lower() in _CLASSES:
                raise self._error("has a range of characters that ends with a class")
        if last < first:
            raise self._error("has a range of characters in the wrong order")
        return lambda one: first <= one.lower() <= last or first <= one.upper() <= last

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, char: str) -> bool:
        found = self._peek() == char
        self._at += found
        return found

    def _error(self, problem: str) -> InvalidInputError:
        return InvalidInputError(
            self._field, f"is not a regular expression that can be used: it {problem}"
        )


class _Automaton:
    """A nondeterministic automaton, whose sets of states are cached as they are found.

    A state with a test accepts a character and leads to one state. Any other state leads to further
    states without a character; if it has an anchor, only at that end of the text. State 0 is the
    end of a match.
    """

    accept: Final = 0

    def __init__(self, field: str) -> None:
        self._field = field
        self._tests: list[_Accepts | None] = [None]
        self._anchors: list[bool | None] = [None]
        self._next: list[list[int]] = [[]]
        self._known: dict[tuple[frozenset[int], str, bool], frozenset[int]] = {}
        self._steps = 0
        self.start = self.accept

    def add(self, node: _Node, after: int) -> int:
        """Add the states of a node that `after` follows, and return the first of them."""
        match node:
            case _Char():
                return self._state([after], test=node.accepts)
            case _Anchor():
                return self._state([after], anchor=node.is_end)
            case _Sequence():
                for item in reversed(node.items):
                    after = self.add(item, after)
                return after
            case _Choice():
                return self._state([self.add(option, after) for option in node.options])
            case _Repeat():
                return self._add_repeat(node, after)

    def _add_repeat(self, node: _Repeat, after: int) -> int:
        if node.high is None:
            loop = self._state([after])
            self._next[loop].append(self.add(node.item, loop))
            after = loop
        else:
            last = after
            for _ in range(node.high - node.low):
                after = self._state([last, self.add(node.item, after)])
        for _ in range(node.low):
            after = self.add(node.item, after)
        return after

    def _state(
        self, follows: list[int], *, test: _Accepts | None = None, anchor: bool | None = None
    ) -> int:
        if len(self._next) >= _STATES_MAX:
            raise InvalidInputError(self._field, "is too complex; use fewer repetitions")
        self._tests.append(test)
        self._anchors.append(anchor)
        self._next.append(follows)
        return len(self._next) - 1

    def is_in(self, text: str) -> bool:
        """Return whether any part of a text matches.

        Raises:
            InvalidInputError: this call and the ones before took too many steps.
        """
        states = self._closure([self.start], is_start=True, is_end=not text)
        for index, char in enumerate(text):
            if self.accept in states:
                return True
            states = self._step(states, char, is_end=index + 1 == len(text))
        return self.accept in states

    def _step(self, states: frozenset[int], char: str, *, is_end: bool) -> frozenset[int]:
        key = states, char, is_end
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _CACHED_MAX:
                self._known.clear()
            self._count(len(states))
            reached = [self._next[one][0] for one in states if self._accepts(one, char)]
            # A match may also begin after this character.
            found = self._closure([*reached, self.start], is_start=False, is_end=is_end)
            self._known[key] = found
        return found

    def _accepts(self, state: int, char: str) -> bool:
        test = self._tests[state]
        return test is not None and test(char)

    def _closure(self, states: Sequence[int], *, is_start: bool, is_end: bool) -> frozenset[int]:
        """Return these states, and those that they lead to without a character."""
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            one = waiting.pop()
            if one in found:
                continue
            found.add(one)
            self._count(1)
            anchor = self._anchors[one]
            is_passed = anchor is None or (is_end if anchor else is_start)
            if self._tests[one] is None and is_passed:
                waiting += self._next[one]
        return frozenset(found)

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _STEPS_MAX:
            raise InvalidInputError(
                self._field, "takes too long to apply to this list; use a simpler pattern"
            )


def _literal(char: str) -> _Node:
    return _Char(_same_as(char))


def _same_as(char: str) -> _Accepts:
    folded = char.casefold()
    return lambda one: one == char or one.casefold() == folded


def _negated(test: _Accepts) -> _Accepts:
    return lambda one: not test(one)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < len("1000")
