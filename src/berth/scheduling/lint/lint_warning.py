"""Warnings about settings of a policy or a fleet that are probably not intended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LintWarning:
    """One probably unintended setting: its place, the problem and, if there is one, the remedy."""

    where: str
    text: str
