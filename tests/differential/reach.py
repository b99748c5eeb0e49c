"""What cases reach, to check that the comparison still covers all if their drawing changes.

A comparison says little about a rule that always removes no host or all of them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from berth.domain.compute.server_group import GroupPolicy
from berth.scheduling.rules.reduction import CHECK_TYPE, REBUILD
from tests.differential.answers import Answer
from tests.differential.cases import Case
from tests.differential.rules import FILTERS, WEIGHERS
from tests.differential.wanted import SPEC_FILTERS

HINTS = ("build_near_host_ip", "cidr", "different_host", "query", "same_host")


def reached(case: Case, settled: Case, nova: Answer) -> Iterator[str]:
    """Yield the name of each thing that a case reaches.

    Args:
        case: the case as it was drawn.
        settled: the case with only the rules that are compared together.
        nova: the real Nova's answer about the drawn case.
    """
    yield from _asked(case)
    if nova.refused is not None:
        yield "refused"
        return
    yield from _told_apart(nova)
    yield from _together(settled, nova)
    if any(one is True for one in nova.pairs_anew):
        yield "cells: fit"
    if any(one is False for one in nova.pairs_anew):
        yield "cells: do not fit"
    if any(isinstance(one, str) for name in SPEC_FILTERS for one in nova.filters[name]):
        yield "bad numbers in extra specs"


def _asked(case: Case) -> Iterator[str]:
    """Yield features of the request and of its fleet."""
    request, snapshot = case.request, case.snapshot
    is_forced = bool(request.force_hosts or request.force_nodes)
    is_check = request.hints.get(CHECK_TYPE) == REBUILD
    group = next((one for one in snapshot.server_groups if one.uuid == request.group_uuid), None)
    here: Mapping[str, bool] = {
        "no hosts": not snapshot.hosts,
        "several hosts": len(snapshot.hosts) > 1,
        "forced": is_forced,
        "forced, several hosts": is_forced and len(snapshot.hosts) > 1,
        "forced rebuilds": is_forced and is_check,
        "rebuilds": is_check,
        "ignored": bool(request.ignore_hosts),
        "retried": bool(request.retried),
        "destination": request.destination is not None,
        "between cells": bool(request.source_cell),
        "image": request.image is not None and bool(request.image.properties),
        "from a volume": request.image is None,
        "devices": "pci_passthrough:alias" in request.flavor.extra_specs,
        "several values of one key": _has_several_values(case),
        "nodes of one host": len({one.name for one in snapshot.hosts}) < len(snapshot.hosts),
        "hosts without a service": len(case.served) < len(snapshot.hosts),
        **{f"group: {one}": group is not None and group.policy == one for one in GroupPolicy},
        **{f"hint: {name}": name in request.hints for name in HINTS},
    }
    yield from (name for name, is_so in here.items() if is_so)


def _has_several_values(case: Case) -> bool:
    """Tell whether the aggregates of a host have different texts under one key."""
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    for aggregate in case.snapshot.aggregates:
        for host in {one.name for one in case.snapshot.hosts} & aggregate.hosts:
            for key, text in aggregate.metadata.items():
                told[host, key].add(text)
    return any(len(texts) > 1 for texts in told.values())


def _told_apart(nova: Answer) -> Iterator[str]:
    """Yield which filters pass and remove hosts, and which weighers distinguish hosts."""
    for name, verdicts in nova.filters.items():
        passes, removes = True in verdicts, False in verdicts
        yield from (f"{name}: passes",) * passes
        yield from (f"{name}: removes",) * removes
        yield from (f"{name}: does both",) * (passes and removes)
    for name, values in nova.weighers.items():
        yield from (f"{name}: apart",) * any(values.normalised)
        yield from (f"{name}: several multipliers",) * (len(set(values.multiplier)) > 1)


def _together(settled: Case, nova: Answer) -> Iterator[str]:
    """Yield the rules that are compared together, and whether several hosts are ordered."""
    for pair in (*settled.order[0], *settled.order[1]):
        yield f"{pair.name}: together"
    steps = () if isinstance(nova.steps, str) else nova.steps
    if steps and len(steps[0].order) > 1:
        yield "several hosts ordered"
    if len(settled.request.instance_uuids) > 1 and len(steps) > 1 and len(steps[1].order) > 1:
        yield "several hosts ordered again"


_OF_FILTERS: Final = {"passes": 30, "removes": 10, "does both": 5, "together": 10}
_OF_WEIGHERS: Final = {"apart": 15, "several multipliers": 5, "together": 10}
_OF_CASES: Final = {
    "several hosts": 150,
    "several hosts ordered": 50,
    "several hosts ordered again": 20,
    **dict.fromkeys((f"group: {policy}" for policy in GroupPolicy), 20),
    **dict.fromkeys((f"hint: {name}" for name in HINTS), 40),
    **dict.fromkeys(("image", "from a volume", "between cells", "nodes of one host"), 20),
    **dict.fromkeys(("several values of one key", "devices", "cells: do not fit"), 20),
    **dict.fromkeys(("forced", "forced, several hosts", "ignored", "retried", "destination"), 15),
    **dict.fromkeys(("rebuilds", "hosts without a service", "cells: fit", "refused"), 10),
    **dict.fromkeys(("forced rebuilds", "no hosts", "bad numbers in extra specs"), 5),
}
_NEVER: Final = frozenset({"AllHostsFilter: removes", "AllHostsFilter: does both"})


def floors() -> dict[str, int]:
    """Return the least number of 300 cases that must reach each thing."""
    filters = {
        f"{pair.name}: {what}": least for pair in FILTERS for what, least in _OF_FILTERS.items()
    }
    weighers = {
        f"{pair.name}: {what}": least for pair in WEIGHERS for what, least in _OF_WEIGHERS.items()
    }
    found = {**filters, **weighers, **_OF_CASES}
    return {name: least for name, least in found.items() if name not in _NEVER}
