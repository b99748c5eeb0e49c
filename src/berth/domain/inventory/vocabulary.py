"""Vocabulary: the resource classes and traits that there are by themselves, or were made."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourceClass:
    """A resource class that somebody made; standard ones need no record.

    `number` tells the order in which classes were made. Times are Unix seconds; 0 is unknown.
    """

    name: str
    number: int
    created_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Trait:
    """A trait that somebody made; standard ones need no record.

    `number` tells the order in which traits were made. Times are Unix seconds; 0 is unknown.
    """

    name: str
    number: int
    created_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StandardNames:
    """The names that all of OpenStack knows, in the order that lists of them have."""

    classes: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
