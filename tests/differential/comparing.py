"""Comparing two answers without tolerance; a difference is wanted only if the table lists it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from berth.scheduling.rules.reduction import CHECK_TYPE
from tests.differential.answers import Answer, Step, Values, Verdict
from tests.differential.cases import Case
from tests.differential.wanted import WANTED

ORDER = "order"
"""The name under which combined rules are compared."""


@dataclass(frozen=True)
class Difference:
    """One difference between the answers of the two sides.

    Args:
        rule: the filter or weigher, `ORDER`, or empty for the request itself.
        what: `verdict`, `raw`, `normalised`, `multiplier`, `order`, `request`.
        host: the index of the host, None if the difference is about all hosts.
        berth, nova: the answer of each side.
        pairs_anew: Nova's verdict if each attempt of its search for cells started afresh.
        images: the properties that Nova reads from images, see `answers.Answer`.
    """

    rule: str
    what: str
    host: int | None
    berth: object
    nova: object
    pairs_anew: bool | None = None
    images: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def __str__(self) -> str:
        """Return the difference in one line."""
        place = "" if self.host is None else f" of host {self.host}"
        return f"{self.rule} {self.what}{place}: Berth {self.berth!r}, Nova {self.nova!r}"


def compare(case: Case, berth: Answer, nova: Answer) -> list[Difference]:
    """Return the differences that are not wanted."""
    return [one for one in differences(case, berth, nova) if wanted_by(case, one) is None]


def wanted_by(case: Case, difference: Difference) -> str | None:
    """Return the name of the table's entry for a difference, None if there is no entry."""
    return next((one.name for one in WANTED if one.holds(case, difference)), None)


def differences(case: Case, berth: Answer, nova: Answer) -> Iterator[Difference]:
    """Yield every difference between the two answers."""
    if berth.refused is not None or nova.refused is not None:
        # In Berth only a rule knows the policy's aliases; Nova looks them up before any rule.
        refuses = berth.refused is not None or "PciPassthroughFilter" in raising(berth)
        if not refuses or nova.refused is None:
            yield Difference("", "request", None, berth.refused, nova.refused)
        return
    for pair in case.filters:
        yield from _verdicts(case, pair.name, berth, nova)
    for pair in case.weighers:
        yield from _values(case, pair.name, berth, nova)
    if case.served:  # without hosts Nova asks no rule, so no rule can refuse the request
        yield from _steps(berth.steps, nova.steps)


def _verdicts(case: Case, name: str, berth: Answer, nova: Answer) -> Iterator[Difference]:
    mine, theirs = berth.filters[name], nova.filters[name]
    if _raises(mine) and _raises(theirs):
        return  # the request fails on both sides
    for host, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        # Nova ignores a host without a service; Berth knows it and treats it as disabled.
        if other is None and (name != "ComputeFilter" or CHECK_TYPE in case.request.hints):
            continue
        if one is not (other or False):
            searches = name == "NUMATopologyFilter" and nova.pairs_anew
            anew = nova.pairs_anew[host] if searches else None
            yield Difference(name, "verdict", host, one, other, anew, nova.images)


def _raises(verdicts: Sequence[Verdict]) -> bool:
    return any(isinstance(one, str) for one in verdicts)


def raising(answer: Answer) -> set[str]:
    """Return the names of the rules that raised an error."""
    failed = {name for name, verdicts in answer.filters.items() if _raises(verdicts)}
    return failed | {name for name, one in answer.weighers.items() if one.error is not None}


def _values(case: Case, name: str, berth: Answer, nova: Answer) -> Iterator[Difference]:
    mine, theirs = berth.weighers[name], nova.weighers[name]
    if theirs.error is not None:
        yield Difference(name, "raw", None, mine.raw, theirs.error)
        return
    for what in ("raw", "normalised", "multiplier"):
        for host, one, other in _values_apart(case, what, mine, theirs):
            yield Difference(name, what, host, one, other, images=nova.images)


def _values_apart(
    case: Case, what: str, berth: Values, nova: Values
) -> Iterator[tuple[int, float, float]]:
    columns = zip(case.weighed, getattr(berth, what), getattr(nova, what), strict=True)
    for host, mine, theirs in columns:
        if mine != theirs:
            yield host, mine, theirs


def _steps(berth: Sequence[Step] | str, nova: Sequence[Step] | str) -> Iterator[Difference]:
    if isinstance(berth, str) or isinstance(nova, str):
        yield Difference(ORDER, "order", None, berth, nova)
        return
    for number, (mine, theirs) in enumerate(zip(berth, nova, strict=True)):
        found, expected = dict(mine.order), dict(theirs.order)
        if found != expected:
            yield Difference(ORDER, f"scores of instance {number}", None, found, expected)
            return
        scores = [score for _, score in mine.order]
        if scores != sorted(scores, reverse=True):
            yield Difference(ORDER, f"order of instance {number}", None, found, expected)
