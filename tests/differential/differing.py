"""The parts of a difference and of its case that the table of wanted differences reads."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from berth.domain.compute.host import Host
from tests.differential.cases import Case
from tests.differential.counterfactuals import Images

RAISED_BY_ATTRIBUTE: Final = "AttributeError: 'str' object has no attribute 'get'"


class Differing(Protocol):
    """The part of a difference that the table reads; see `comparing.Difference`."""

    @property
    def rule(self) -> str:
        """The filter or weigher."""
        ...

    @property
    def what(self) -> str:
        """The subject of the difference."""
        ...

    @property
    def host(self) -> int | None:
        """The index of the host."""
        ...

    @property
    def berth(self) -> object:
        """Berth's answer."""
        ...

    @property
    def nova(self) -> object:
        """Nova's answer."""
        ...

    @property
    def pairs_anew(self) -> bool | None:
        """Nova's verdict if each attempt of its search for cells started afresh."""
        ...

    @property
    def images(self) -> Images:
        """The properties that Nova reads from images."""
        ...


def host_of(case: Case, one: Differing) -> Host:
    """Return the host that a difference is about."""
    assert one.host is not None
    return case.snapshot.hosts[one.host]


def metadata_of(case: Case, host: Host, key: str) -> Iterator[str]:
    """Yield the texts that the aggregates of a host have under a key."""
    for aggregate in case.snapshot.aggregates:
        if host.name in aggregate.hosts and key in aggregate.metadata:
            yield aggregate.metadata[key]


def has_unreadable(texts: Iterable[str]) -> bool:
    """Tell whether at least one of the texts is not a number."""
    return any(number_in(text) is None for text in texts)


def number_in(text: str, read: Callable[[str], float] = float) -> float | None:
    """Return the number in a text as Nova reads it, None if it is not a number."""
    try:
        return read(text)
    except ValueError:
        return None


def is_finite(text: str) -> bool:
    """Tell whether a text is not an infinite number or NaN."""
    number = number_in(text)
    return number is None or math.isfinite(number)


def properties_of(case: Case) -> Mapping[str, str]:
    """Return the properties of the requested image, empty without an image."""
    return case.request.image.properties if case.request.image else {}


def hint_of(case: Case, name: str) -> str:
    """Return the first text of a hint, empty without the hint."""
    return case.request.hints.get(name, ("",))[0]
