"""Refusals: the hosts that each rule removed, and the changes that would make the request fit."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from berth.domain.compute.decision import (
    NO_HOST,
    FilterCount,
    Refusal,
    RefusalCode,
    Relaxation,
)
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.guarded_rules import GuardedRules
from berth.scheduling.evaluation.relaxation_search import RelaxationSearch
from berth.scheduling.rules.reduction import Reduction
from berth.scheduling.rules.rule import Query, count_hosts, first_rows, without
from berth.tables.columnar.bitsets import Mask
from berth.tables.host.hosts import HostTable

# A message names at most this many relaxations; the record contains all of them.
_TEXTS_MAX = 3

_REDUCTION = "reduction"


def explain_refusal(
    rules: GuardedRules,
    query: Query,
    chain: FilterChain,
    reduction: Reduction,
    *,
    placed: Sequence[int],
) -> Refusal:
    """Return the refusal of an instance for which no host is left.

    Every filter runs on every host. A host that exactly one filter removes would pass after a
    single change to the request, and that filter may propose the change. Each change is for this
    one instance: in a request for several, it makes one more instance fit.

    Args:
        rules: calls the filters on the table, with the request's earlier instances on it, and keeps
            their errors.
        query: the query of the instance that found no host.
        chain: the filters that ran.
        reduction: the hosts that the request allows by name.
        placed: the rows of the instances of the request that were placed before.
    """
    hosts = rules.hosts
    verdicts = chain.verdicts(query)
    asked = len(query.request.instance_uuids)
    filters = _counts(rules, query, chain, reduction, verdicts)
    search = RelaxationSearch(rules, chain, reduction)
    relaxations = [
        *_fewer(len(placed), asked),
        *search.singles(query),
        *_by_names(hosts, query, chain, reduction, placed),
    ]
    # Pairs are searched only if no single change except fewer instances helps, because the search
    # evaluates filters again.
    if all(one.filter == "count" for one in relaxations):
        relaxations += search.pairs(query)
    total = int(np.count_nonzero(hosts.alive))
    refusal = Refusal(
        code=_code(total, reduction, len(placed)),
        message="",
        placed=len(placed),
        asked=asked,
        hosts_total=total,
        filters=tuple(filters),
        relaxations=tuple(relaxations),
        summary=NO_HOST,
    )
    claim = _no_hint(is_complete=search.is_complete, has_failed=bool(rules.failures))
    return replace(
        refusal,
        message=_message(refusal, claim),
        hints=_joined(_hints(refusal, claim, counts=False)),
    )


def _code(total: int, reduction: Reduction, placed: int) -> RefusalCode:
    if placed:
        return RefusalCode.NOT_ENOUGH
    if not total or not reduction.mask.any():
        return RefusalCode.NO_HOSTS
    return RefusalCode.ALL_FILTERED


def _counts(
    rules: GuardedRules,
    query: Query,
    chain: FilterChain,
    reduction: Reduction,
    verdicts: list[Mask],
) -> list[FilterCount]:
    """Return the counts of the reduction and each filter, with reasons for a few removed hosts."""
    hosts, mask = rules.hosts, reduction.mask.copy()
    before = int(np.count_nonzero(mask))
    counts: list[FilterCount] = []
    if reduction.what:
        everyone = int(np.count_nonzero(hosts.alive))
        counts.append(FilterCount(reduction.what, everyone, before))
    for rule, verdict in zip(chain.filters, verdicts, strict=True):
        removed = np.flatnonzero(mask & ~verdict)
        mask &= verdict
        examples = tuple(
            f"{hosts.name(row)}: {rules.why(rule, query, row)}"
            for row in first_rows(hosts, removed).tolist()
        )
        counts.append(FilterCount(rule.name, before, before - removed.size, examples))
        before -= removed.size
    return counts


def _by_names(
    hosts: HostTable, query: Query, chain: FilterChain, reduction: Reduction, placed: Sequence[int]
) -> list[Relaxation]:
    """Return the relaxations that drop restrictions to names, with the hosts that would then fit.

    A request that no longer forces hosts must pass the filters that forcing skips, and so must its
    earlier instances on their hosts.
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
        mask &= chain.passes_group_rules(query)
        found.extend(_without_names(hosts, dropped.what, mask))
    if not found and stays and len(reduction.restrictions) > 1:
        mask = hosts.alive & ~reduction.mask & chain.passes(query, forced=False)
        found.extend(_without_names(hosts, reduction.what, mask))
    return found


def _stay(query: Query, chain: FilterChain, placed: Sequence[int]) -> bool:
    """Return whether the placed instances' hosts also pass the filters that forcing skips."""
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


def _no_hint(*, is_complete: bool, has_failed: bool) -> str:
    """Return what a refusal says if no change was found that would help."""
    if has_failed:
        return "not every change was tried, because a rule failed"
    if is_complete:
        return "no single change to the request, and no two together, would make it fit"
    return "no single change to the request would make it fit; not every pair of changes was tried"


def _message(refusal: Refusal, claim: str) -> str:
    """Return the message for the owner of the request: one line without names of hosts."""
    asked, total = refusal.asked, refusal.hosts_total
    noun = "instance" if asked == 1 else "instances"
    sentences = [f"{NO_HOST.rstrip('.')} for {asked:,} {noun}"]
    if refusal.placed:
        sentences.append(f"only {refusal.placed:,} found room")
    if not total:
        sentences.append("no host is registered")
    removed = [
        f"{count.name} removed {count.before - count.after:,}"
        for count in refusal.filters
        if count.before > count.after
    ]
    if removed:
        sentences.append(f"of {count_hosts(total)}, " + ", ".join(removed))
    sentences.extend(_hints(refusal, claim, counts=True))
    return _joined(sentences)


def _joined(sentences: Sequence[str]) -> str:
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in sentences)


def _hints(refusal: Refusal, claim: str, *, counts: bool) -> list[str]:
    """Return the sentences about changes that would help, with or without numbers of hosts.

    `claim` is the sentence if there are none.
    """
    fewer = [one for one in refusal.relaxations if one.change and one.filter == "count"]
    other = [one for one in refusal.relaxations if one not in fewer][:_TEXTS_MAX]
    sentences = [f"it would fit with {one.text}" for one in fewer]
    if other:
        subject = "it" if refusal.asked == 1 else "one more"
        texts = [one.text if counts else one.what for one in other]
        sentences.append(f"{subject} would fit with: " + "; ".join(texts))
    elif refusal.code is RefusalCode.ALL_FILTERED:
        sentences.append(claim)
    return sentences
