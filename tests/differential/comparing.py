"""Comparing two answers: no tolerance, and a difference is wanted only when a table says so."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from berth.scheduling.rules.reduction import CHECK_TYPE
from tests.differential.answers import Answer, Step, Values, Verdict
from tests.differential.cases import Case
from tests.differential.wanted import WANTED

ORDER = "order"
"""The name under which the rules asked together are compared."""


@dataclass(frozen=True)
class Difference:
    """One thing that the two sides say differently.

    Args:
        rule: the filter or weigher, `ORDER`, or empty for the request itself.
        what: `verdict`, `raw`, `normalised`, `multiplier`, `order`, `request`.
        host: the index of the host; None when it is about all of them.
        berth, nova: what each side says.
        pairs_anew: what Nova would say if its search for cells started anew at every try.
        images: the properties that Nova reads of images, see `answers.Answer`.
    """

    rule: str
    what: str
    host: int | None
    berth: object
    nova: object
    pairs_anew: bool | None = None
    images: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def __str__(self) -> str:
        """Say it in one line."""
        place = "" if self.host is None else f" of host {self.host}"
        return f"{self.rule} {self.what}{place}: Berth {self.berth!r}, Nova {self.nova!r}"


def compare(case: Case, berth: Answer, nova: Answer) -> list[Difference]:
    """Return the differences that nobody wants."""
    return [one for one in differences(case, berth, nova) if wanted_by(case, one) is None]


def wanted_by(case: Case, difference: Difference) -> str | None:
    """Name the entry of the table that wants a difference; None when none does."""
    return next((one.name for one in WANTED if one.holds(case, difference)), None)


def differences(case: Case, berth: Answer, nova: Answer) -> Iterator[Difference]:
    """Yield everything that the two sides say differently."""
    if berth.refused is not None or nova.refused is not None:
        # Only a rule of Berth knows the policy's aliases; Nova looks them up before.
        refuses = berth.refused is not None or "PciPassthroughFilter" in raising(berth)
        if not refuses or nova.refused is None:
            yield Difference("", "request", None, berth.refused, nova.refused)
        return
    for pair in case.filters:
        yield from _verdicts(case, pair.name, berth, nova)
    for pair in case.weighers:
        yield from _values(case, pair.name, berth, nova)
    if case.served:  # without hosts Nova asks no rule, so nothing can be wrong with the request
        yield from _steps(berth.steps, nova.steps)


def _verdicts(case: Case, name: str, berth: Answer, nova: Answer) -> Iterator[Difference]:
    mine, theirs = berth.filters[name], nova.filters[name]
    if _raises(mine) and _raises(theirs):
        return  # either way the request fails
    for host, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        # A host without a service is none to Nova; Berth knows it and takes it for disabled.
        if other is None and (name != "ComputeFilter" or CHECK_TYPE in case.request.hints):
            continue
        if one is not (other or False):
            searches = name == "NUMATopologyFilter" and nova.pairs_anew
            anew = nova.pairs_anew[host] if searches else None
            yield Difference(name, "verdict", host, one, other, anew, nova.images)


def _raises(verdicts: Sequence[Verdict]) -> bool:
    return any(isinstance(one, str) for one in verdicts)


def raising(answer: Answer) -> set[str]:
    """Name the rules that failed a request."""
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
