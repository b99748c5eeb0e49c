"""Reduces refusals, and the faults that quote them, to what tenants may read."""

from dataclasses import replace
from typing import Final

from berth.api.routing import Call
from berth.domain.compute.decision import (
    GROUP_BROKEN,
    NO_HOST,
    Placement,
    Refusal,
    RefusalDetail,
    Relaxation,
    ScoredHost,
    told,
)
from berth.domain.compute.instance import Fault

_SUMMARIES: Final = (NO_HOST, GROUP_BROKEN)


def detail_for(call: Call) -> RefusalDetail:
    """Return the detail of refusals for the caller: all for administrators, none for zones.

    A parent zone must not learn the capacity of this zone's hosts.
    """
    if call.identity.parent is not None:
        return RefusalDetail.NOTHING
    return RefusalDetail.FULL if call.identity.is_admin else call.parts.refusal_detail


def fault_for(call: Call, fault: Fault) -> Fault:
    """Return a fault reduced to the text that the caller may read.

    Only administrators read `details`.
    """
    detail = detail_for(call)
    if detail is not RefusalDetail.FULL:
        summary = fault.summary or _summary_of(fault.message)
        message = told(fault.message, summary, fault.hints, detail)
        fault = replace(fault, message=message, summary="", hints="")
    return fault if call.identity.is_admin else replace(fault, details="")


def _summary_of(message: str) -> str:
    """Return the summary of a fault stored without one.

    This is the first sentence of a refusal's message, or the whole message of another fault.
    """
    # Earlier versions stored refusals without a summary; their messages begin with one of these.
    for summary in _SUMMARIES:
        if message.startswith(summary.rstrip(".")):
            return summary
    return message


def reduced_refusal(refusal: Refusal, detail: RefusalDetail) -> Refusal:
    """Return a refusal reduced to the given detail; `FULL` returns it unchanged."""
    if detail is RefusalDetail.FULL:
        return refusal
    kept = refusal.relaxations if detail is RefusalDetail.RELAXATIONS else ()
    return replace(
        refusal,
        message=refusal.told(detail),
        hosts_total=0,
        filters=(),
        relaxations=tuple(map(_without_rule, kept)),
        hints=refusal.hints if detail is RefusalDetail.RELAXATIONS else "",
    )


def _without_rule(one: Relaxation) -> Relaxation:
    return replace(one, filter="", text=one.what, hosts=0, examples=(), parts=())


def reduced_placement(placement: Placement, detail: RefusalDetail) -> Placement:
    """Return a placement without the number of hosts and the names and values of rules.

    The values reveal the free amounts of the host. `FULL` returns the placement unchanged.
    """
    if detail is RefusalDetail.FULL:
        return placement
    return replace(placement, candidates=0, chosen=ScoredHost("", "", placement.chosen.score))
