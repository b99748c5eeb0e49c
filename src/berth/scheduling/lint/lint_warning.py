"""Findings: what is told of a policy or a fleet that is probably not meant."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is probably not meant: where in the policy or fleet, what, and what to do."""

    where: str
    text: str
