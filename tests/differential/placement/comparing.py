"""The differences between two answers to one query."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.differential.placement.worlds import Pair

_OK = 200
_NESTED_SINCE = 29


class Difference(NamedTuple):
    """One difference between the two sides.

    Attributes:
        what: `status`, `code`, `text`, `found`, `shown`, `told`, `listed` or `limit`.
        berth: Berth's answer.
        real: Placement's answer.
    """

    what: str
    berth: object
    real: object


def differences(pair: Pair) -> Iterator[Difference]:
    """Yield every difference between the two sides.

    Under a limit each side may list another part of the same candidates.
    """
    berth, real = pair.berth, pair.real
    if berth.status != real.status:
        yield Difference("status", (berth.status, berth.text), (real.status, real.text))
        return
    if berth.status != _OK:
        if berth.code != real.code:
            yield Difference("code", berth.code, real.code)
        if bare(berth.text) != bare(real.text):
            yield Difference("text", berth.text, real.text)
        return
    extra, missing = berth.found - pair.whole.found, pair.whole.found - berth.found
    is_part = pair.whole is not real
    if extra or (missing and not is_part):
        yield Difference("found", dict(extra), dict(missing))
    if is_part and berth.found.total() != real.found.total():
        yield Difference("limit", berth.found.total(), real.found.total())
    if max(berth.found.values(), default=1) > max(pair.whole.found.values(), default=1):
        yield Difference("listed", "a candidate more than once", "each once")
    theirs = pair.whole.summaries
    if not is_part and berth.summaries.keys() != theirs.keys():
        yield Difference("shown", sorted(berth.summaries), sorted(theirs))
    for uuid in berth.summaries.keys() & theirs.keys():
        if berth.summaries[uuid] != theirs[uuid]:
            yield Difference("told", berth.summaries[uuid], theirs[uuid])
    if is_part and berth.summaries.keys() != _shown(pair):
        yield Difference("shown", sorted(berth.summaries), sorted(_shown(pair)))


def _shown(pair: Pair) -> set[str]:
    """Return the providers that must be summarised: all of the trees of Berth's candidates."""
    giving = {uuid for one in pair.berth.found for uuid, _, _ in one.amounts}
    if pair.asked.minor < _NESTED_SINCE:
        return giving
    parents = {one.uuid: one.parent_uuid for one in pair.providers}

    def root(uuid: str) -> str:
        parent = parents[uuid]
        return uuid if parent is None else root(parent)

    roots = {root(uuid) for uuid in giving}
    return {uuid for uuid in parents if root(uuid) in roots}


def bare(text: str) -> str:
    """Return the sorted characters of a message without its schema, so that order is ignored."""
    return "".join(sorted(text.partition("Failed validating")[0].rstrip()))
