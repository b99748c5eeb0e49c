"""Reduces refusals, and the faults that quote them, to what tenants may read."""

from dataclasses import replace

from berth.api.routing import Call
from berth.domain.compute.decision import Placement, Refusal, RefusalDetail, Relaxation, ScoredHost
from berth.domain.compute.instance import Fault
from berth.scheduling.evaluation.explain import (
    relaxations_alone,
    without_host_count,
    without_reasons,
)


def detail_for(call: Call) -> RefusalDetail:
    """Return the detail of refusals for the caller: all for administrators, none for zones.

    A parent zone must not learn the capacity of this zone's hosts.
    """
    if call.identity.parent is not None:
        return RefusalDetail.NOTHING
    return RefusalDetail.FULL if call.identity.is_admin else call.parts.refusal_detail


def message_for(call: Call, message: str) -> str:
    """Return the message; a refusal's is reduced to what the caller may read."""
    return _reduced(message, detail_for(call))


def _reduced(message: str, detail: RefusalDetail) -> str:
    if detail is RefusalDetail.FULL:
        return message
    is_silent = detail is RefusalDetail.NOTHING
    return without_reasons(message) if is_silent else relaxations_alone(message)


def fault_for(call: Call, fault: Fault) -> Fault:
    """Return a fault with the text that the caller may read; details are for administrators."""
    details = fault.details if call.identity.is_admin else ""
    return replace(fault, message=message_for(call, fault.message), details=details)


def reduced_refusal(refusal: Refusal, detail: RefusalDetail) -> Refusal:
    """Return a refusal reduced to the given detail; `FULL` returns it unchanged."""
    if detail is RefusalDetail.FULL:
        return refusal
    kept = refusal.relaxations if detail is RefusalDetail.RELAXATIONS else ()
    return replace(
        refusal,
        message=_reduced(refusal.message, detail),
        hosts_total=0,
        filters=(),
        relaxations=tuple(map(_without_rule, kept)),
    )


def _without_rule(one: Relaxation) -> Relaxation:
    return replace(one, filter="", text=without_host_count(one.text), hosts=0, parts=())


def reduced_placement(placement: Placement, detail: RefusalDetail) -> Placement:
    """Return a placement without the number of hosts and the names and values of rules.

    The values reveal the free amounts of the host. `FULL` returns the placement unchanged.
    """
    if detail is RefusalDetail.FULL:
        return placement
    return replace(placement, candidates=0, chosen=ScoredHost("", "", placement.chosen.score))
