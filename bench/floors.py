"""Floors: limits that measures must keep (`floors.toml`)."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

_FILE = Path(__file__).with_name("floors.toml")


@dataclass(frozen=True, slots=True)
class Floor:
    """A lower or an upper limit of a measure; `unit` is a text.

    A `target` is for orientation only, because absolute times depend on the machine; a missed
    target does not fail the run.

    Raises:
        ValueError: it has no limit or two.
    """

    name: str
    measure: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    target: bool = False

    def __post_init__(self) -> None:
        """Refuse a floor that does not have exactly one limit."""
        if (self.at_least is None) is (self.at_most is None):
            raise ValueError(f"{self.name}: give at_least or at_most")

    def holds(self, measured: float) -> bool:
        """Return whether a measure is within the limit."""
        if self.at_least is not None:
            return measured >= self.at_least
        return self.at_most is None or measured <= self.at_most


@dataclass(frozen=True, slots=True)
class Verdict:
    """A floor and its measure; `measured` and `met` are None if it was not measured."""

    floor: Floor
    measured: float | None
    met: bool | None


def load_floors() -> tuple[Floor, ...]:
    """Read the floors."""
    document = tomllib.loads(_FILE.read_text("utf-8"))
    return msgspec.convert(document["floors"], tuple[Floor, ...])


def judge(floors: Sequence[Floor], measures: Mapping[str, float]) -> tuple[Verdict, ...]:
    """Return the verdict on each floor."""
    return tuple(_judge(floor, measures.get(floor.measure)) for floor in floors)


def _judge(floor: Floor, measured: float | None) -> Verdict:
    met = None if measured is None else floor.holds(measured)
    return Verdict(floor, measured, met)


def all_hold(verdicts: Sequence[Verdict]) -> bool:
    """Return whether no floor was missed; targets and unmeasured floors do not count."""
    return all(verdict.met is not False or verdict.floor.target for verdict in verdicts)
