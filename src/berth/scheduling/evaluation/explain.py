"""Refusals that explain: which rule removed how many hosts, and what would have fitted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from berth.domain.compute.decision import FilterCount, Refusal, RefusalCode, Relaxation
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.paired_relaxations import relaxations_in_pairs
from berth.scheduling.rules.reduction import Reduction
from berth.scheduling.rules.rule import Query, count_hosts, first_rows, without
from berth.tables.columnar.bitsets import Mask
from berth.tables.host.hosts import HostTable

NO_HOST: Final = "No valid host was found"


GROUP_BROKEN: Final = "The policy of the server group would be broken"


_BEGINNINGS: Final = (NO_HOST, GROUP_BROKEN)


def without_reasons(message: str) -> str:
    """Return what another zone may read of a message that may be a refusal's.

    The reasons count hosts, and say how much room would do. What agents say of their work to the
    owners of instances does none of that, and is left as it is.
    """
    for beginning in _BEGINNINGS:
        if message.startswith(beginning):
            return f"{beginning}."
    return message


_SAID_MAX = 3
"""Relaxations that the message names; the record has them all."""

_REDUCTION = "reduction"


def explain_refusal(
    hosts: HostTable,
    query: Query,
    chain: FilterChain,
    reduction: Reduction,
    *,
    placed: Sequence[int],
) -> Refusal:
    """Explain why no host is left for an instance.

    Every filter is asked about every host. A host that exactly one filter removes is one that a
    single change to the request could win; that filter says which change. Changes are for this
    one instance: of a request for many, they win room for one more.

    Args:
        hosts: the table, with the request's earlier instances on it.
        query: the instance that found no host.
        chain: the filters that were run.
        reduction: the hosts that the request allows by name.
        placed: the rows of those instances of the request that had found a host before this one.
    """
    verdicts = chain.verdicts(query)
    asked = len(query.request.instance_uuids)
    filters = _counts(hosts, query, chain, reduction, verdicts)
    relaxations = [
        *_fewer(len(placed), asked),
        *_by_filters(hosts, query, chain, reduction, verdicts),
        *_by_names(hosts, query, chain, reduction, placed),
    ]
    if all(one.filter == "count" for one in relaxations):
        relaxations += relaxations_in_pairs(hosts, query, chain.filters, verdicts, reduction.mask)
    total = int(np.count_nonzero(hosts.alive))
    refusal = Refusal(
        code=_code(total, reduction, len(placed)),
        message="",
        placed=len(placed),
        asked=asked,
        hosts_total=total,
        filters=tuple(filters),
        relaxations=tuple(relaxations),
    )
    return replace(refusal, message=_message(refusal))


def _code(total: int, reduction: Reduction, placed: int) -> RefusalCode:
    if placed:
        return RefusalCode.NOT_ENOUGH
    if not total or not reduction.mask.any():
        return RefusalCode.NO_HOSTS
    return RefusalCode.ALL_FILTERED


def _counts(
    hosts: HostTable, query: Query, chain: FilterChain, reduction: Reduction, verdicts: list[Mask]
) -> list[FilterCount]:
    """Count along the chain, naming for each filter some hosts that it removed and why."""
    mask = reduction.mask.copy()
    before = int(np.count_nonzero(mask))
    counts: list[FilterCount] = []
    if reduction.what:
        everyone = int(np.count_nonzero(hosts.alive))
        counts.append(FilterCount(reduction.what, everyone, before))
    for rule, verdict in zip(chain.filters, verdicts, strict=True):
        removed = np.flatnonzero(mask & ~verdict)
        mask &= verdict
        examples = tuple(
            f"{hosts.name(row)}: {rule.why(hosts, query, row)}"
            for row in first_rows(hosts, removed).tolist()
        )
        counts.append(FilterCount(rule.name, before, before - removed.size, examples))
        before -= removed.size
    return counts


def _by_filters(
    hosts: HostTable, query: Query, chain: FilterChain, reduction: Reduction, verdicts: list[Mask]
) -> list[Relaxation]:
    failed = np.zeros(len(hosts), dtype=np.int64)
    for verdict in verdicts:
        failed += ~verdict
    found: list[Relaxation] = []
    for rule, verdict in zip(chain.filters, verdicts, strict=True):
        rows = np.flatnonzero(reduction.mask & ~verdict & (failed == 1))
        if rows.size:
            found.extend(rule.relax(hosts, query, rows))
    found.sort(key=lambda relaxation: -relaxation.hosts)
    return found


def _by_names(
    hosts: HostTable, query: Query, chain: FilterChain, reduction: Reduction, placed: Sequence[int]
) -> list[Relaxation]:
    """Say which hosts would do if the request named none, or less of them.

    A request that is no longer forced has to pass the filters that force skips, and so have its
    earlier instances where they are.
    """
    found: list[Relaxation] = []
    stays = not reduction.forced or _stay(query, chain, placed)
    for dropped in reduction.restrictions:
        kept = [one for one in reduction.restrictions if one is not dropped]
        if not (stays or any(one.forces for one in kept)):
            continue
        mask = hosts.alive & ~dropped.allows
        for one in kept:
            mask &= one.allows
        mask &= chain.passes(query, forced=any(one.forces for one in kept))
        found.extend(_without_names(hosts, dropped.what, mask))
    if not found and stays and len(reduction.restrictions) > 1:
        mask = hosts.alive & ~reduction.mask & chain.passes(query, forced=False)
        found.extend(_without_names(hosts, reduction.what, mask))
    return found


def _stay(query: Query, chain: FilterChain, placed: Sequence[int]) -> bool:
    """Tell whether instances placed by force might be where they are without it."""
    return not placed or bool(chain.passes_skipped_filters(query)[list(placed)].all())


def _without_names(hosts: HostTable, what: str, mask: Mask) -> list[Relaxation]:
    return without(_REDUCTION, what, f"the {what}", hosts, np.flatnonzero(mask))


def _fewer(placed: int, asked: int) -> list[Relaxation]:
    if not placed:
        return []
    less = asked - placed
    noun = "instance" if less == 1 else "instances"
    text = f"{less:,} fewer {noun}: {placed:,} of {asked:,} fit"
    return [Relaxation(filter="count", subject="instances", text=text, hosts=0, change=-less)]


def _message(refusal: Refusal) -> str:
    """Say it in one line that names no host, so that it may be shown to whoever asked."""
    asked, total = refusal.asked, refusal.hosts_total
    noun = "instance" if asked == 1 else "instances"
    said = [f"{NO_HOST} for {asked:,} {noun}"]
    if refusal.placed:
        said.append(f"only {refusal.placed:,} found room")
    if not total:
        said.append("no host is registered")
    removed = [
        f"{count.name} removed {count.before - count.after:,}"
        for count in refusal.filters
        if count.before > count.after
    ]
    if removed:
        said.append(f"of {count_hosts(total)}, " + ", ".join(removed))
    said.extend(_hints(refusal))
    return ". ".join(text[0].upper() + text[1:] for text in said) + "."


def _hints(refusal: Refusal) -> list[str]:
    fewer = [one.text for one in refusal.relaxations if one.change and one.filter == "count"]
    other = [one.text for one in refusal.relaxations if one.text not in fewer][:_SAID_MAX]
    said = [f"it would fit with {text}" for text in fewer]
    if other:
        who = "it" if refusal.asked == 1 else "one more"
        said.append(f"{who} would fit with: " + "; ".join(other))
    elif refusal.code is RefusalCode.ALL_FILTERED:
        said.append("no single change to the request, and no two together, would make it fit")
    return said
