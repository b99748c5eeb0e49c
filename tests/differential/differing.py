"""What the table of wanted differences looks at: a difference, and what the case says about it."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from berth.domain.compute.host import Host
from tests.differential.cases import Case
from tests.differential.counterfactuals import Images

RAISED_BY_ATTRIBUTE: Final = "AttributeError: 'str' object has no attribute 'get'"


class Differing(Protocol):
    """A difference, as far as the table looks at it; see `comparing.Difference`."""

    @property
    def rule(self) -> str:
        """The filter or weigher."""
        ...

    @property
    def what(self) -> str:
        """What about it."""
        ...

    @property
    def host(self) -> int | None:
        """The index of the host."""
        ...

    @property
    def berth(self) -> object:
        """What Berth says."""
        ...

    @property
    def nova(self) -> object:
        """What Nova says."""
        ...

    @property
    def pairs_anew(self) -> bool | None:
        """What Nova would say if its search for cells started anew at every try."""
        ...

    @property
    def images(self) -> Images:
        """The properties that Nova reads of images."""
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
    """Tell whether some of the texts is no number."""
    return any(number_in(text) is None for text in texts)


def number_in(text: str, read: Callable[[str], float] = float) -> float | None:
    """Read a number as Nova does, None when it cannot."""
    try:
        return read(text)
    except ValueError:
        return None


def is_finite(text: str) -> bool:
    """Tell whether a text is no number that is not finite."""
    number = number_in(text)
    return number is None or math.isfinite(number)


def properties_of(case: Case) -> Mapping[str, str]:
    """Return the properties of the image that is asked for."""
    return case.request.image.properties if case.request.image else {}


def hint_of(case: Case, name: str) -> str:
    """Return the first text of a hint, empty without one."""
    return case.request.hints.get(name, ("",))[0]
