"""The features that compared queries use, to check that the comparison covers all of them."""

from collections.abc import Iterator, Mapping
from typing import Final

from tests.differential.placement.forests import SHARES
from tests.differential.placement.worlds import Pair

_OK = 200
_REFUSED = 400

LEAST: Final[Mapping[str, int]] = {
    "refused": 10,
    "nothing found": 50,
    "found": 50,
    "newest version": 100,
    "older version": 50,
    "version without trees": 5,
    "version without suffixes": 5,
    "only with a suffix": 10,
    "only without": 10,
    "with and without": 10,
    "three groups and more": 10,
    "four groups and more": 3,
    "without resources": 3,
    "several without resources": 2,
    "several required": 3,
    "any trait": 3,
    "forbidden trait": 5,
    "several member_of": 2,
    "forbidden aggregate": 3,
    "in_tree": 5,
    "none": 10,
    "isolate": 10,
    "root_required": 5,
    "root forbidden": 3,
    "same_subtree": 10,
    "several same_subtree": 2,
    "limit that cuts": 3,
    "from a child": 10,
    "from a child of a child": 5,
    "from two providers": 10,
    "from a sharing provider of another tree": 3,
    "from two sharing providers": 3,
}
"""The least number of queries with each feature; those about parameters must find candidates."""


def reached(pair: Pair) -> Iterator[str]:
    """Yield the features of a query and its answer."""
    asked = pair.asked
    yield "newest version" if asked.minor == 39 else "older version"
    if asked.minor < 29:
        yield "version without trees"
    if asked.minor < 25:
        yield "version without suffixes"
    if pair.berth.status == _REFUSED:
        yield "refused"
    if pair.berth.status != _OK:
        return
    if not pair.berth.found:
        yield "nothing found"
        return
    yield "found"
    yield from _in_query(pair)
    yield from _in_answer(pair)


def _in_query(pair: Pair) -> Iterator[str]:
    query = pair.query()
    assert query is not None
    suffixed = sum(1 for group in query.groups if group.suffix)
    kinds = ("only without", "only with a suffix", "with and without")
    yield kinds[0] if not suffixed else kinds[1 + (suffixed < len(query.groups))]
    if len(query.groups) >= 3:
        yield "three groups and more"
    resourceless = sum(1 for group in query.groups if not group.amounts)
    for name, is_there in {
        "four groups and more": len(query.groups) >= 4,
        "several without resources": resourceless > 1,
        "without resources": resourceless > 0,
        "several required": any(len(group.required) > 1 for group in query.groups),
        "any trait": any(len(names) > 1 for group in query.groups for names in group.required),
        "forbidden trait": any(group.forbidden for group in query.groups),
        "several member_of": any(len(group.member_of) > 1 for group in query.groups),
        "forbidden aggregate": any(group.outside_of for group in query.groups),
        "in_tree": any(group.in_tree for group in query.groups),
        "none": "none" in pair.asked.every("group_policy"),
        "isolate": query.isolates,
        "root_required": bool(query.root_required),
        "root forbidden": bool(query.root_forbidden),
        "same_subtree": bool(query.same_subtree),
        "several same_subtree": len(query.same_subtree) > 1,
    }.items():
        if is_there:
            yield name


def _in_answer(pair: Pair) -> Iterator[str]:
    if pair.whole.found.total() > pair.real.found.total():
        yield "limit that cuts"
    nodes = {one.uuid: one for one in pair.providers}

    def path(uuid: str) -> list[str]:
        parent = nodes[uuid].parent_uuid
        return [uuid] if parent is None else [uuid, *path(parent)]

    giving = [{uuid for uuid, _, _ in one.amounts} for one in pair.berth.found]
    depth = max(len(path(uuid)) for uuids in giving for uuid in uuids)
    if depth > 1:
        yield "from a child"
    if depth > 2:
        yield "from a child of a child"
    if any(len(uuids) > 1 for uuids in giving):
        yield "from two providers"
    shared = (uuids for uuids in giving if len({path(uuid)[-1] for uuid in uuids}) > 1)
    if any(SHARES in nodes[uuid].traits for uuids in shared for uuid in uuids):
        yield "from a sharing provider of another tree"
    if any(sum(SHARES in nodes[uuid].traits for uuid in uuids) > 1 for uuids in giving):
        yield "from two sharing providers"
