"""Finds decisions in this zone and its child zones, and reduces them to what a tenant may see."""

import asyncio
from dataclasses import replace
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

from berth.api.berth.schemas.decisions import DecisionsAnswer
from berth.api.codec import decode
from berth.api.compute.handlers.servers.child_requests import (
    ask_child,
    marks_of,
    time_left_s,
)
from berth.api.compute.handlers.servers.forwarding import visible_remote, zone_with
from berth.api.errors import HttpError
from berth.api.limits import check_depth
from berth.api.refusals import detail_for, reduced_placement, reduced_refusal
from berth.api.routing import Call
from berth.domain.compute.decision import Decision, FilterCount, Placement, Refusal, RefusalDetail
from berth.domain.compute.instance import Instance
from berth.domain.errors import InvalidInputError, NotFoundError, UnavailableError
from berth.domain.uuids import is_uuid
from berth.domain.zones.zone import RemoteInstance, Zone
from berth.ports.zones import ForwardedRequest
from berth.services.decisions.history import decision_called, decisions_about

_T = TypeVar("_T")

_PATH: Final = "/berth/v1/decisions"
# Only ids of this form are sought in all children, so that a mistyped id costs nothing.
_REQUEST: Final = "req-"
# The message must not name the zone, because tenants must not learn which zones exist.
_UNAVAILABLE: Final = "the decision cannot be read at present; try again"


def may_see(call: Call, decision: Decision) -> bool:
    """Return whether the caller may see a decision."""
    return call.project_id in {None, decision.project_id}


def shown(call: Call, decision: Decision) -> Decision:
    """Return a decision as the caller may see it."""
    if call.identity.is_admin:
        return decision
    decision = without_hosts(decision)
    detail = detail_for(call)
    if detail is not RefusalDetail.FULL:
        refusal = decision.refusal
        decision = replace(
            decision,
            filters=(),
            placements=tuple(reduced_placement(one, detail) for one in decision.placements),
            refusal=None if refusal is None else reduced_refusal(refusal, detail),
        )
    if call.parts.zones is None:
        return decision
    # In a tree, what belongs to a zone's policy would tell a tenant which servers share a zone.
    return replace(
        decision, policy_name="", policy_hash="", table_version=0, seed=0, chosen_among=1
    )


async def find_decision(call: Call, key: str, server: str | None) -> Decision | None:
    """Return the decision to which an id refers, in this zone or in a zone below it.

    Args:
        call: the request.
        key: an id as in `decision_called`, or the id of a request that a child zone has decided.
        server: the uuid of the server that the decision is about. If it is None, only servers of
            the caller's own project are considered in children.

    Returns:
        The decision, or None if there is none that the caller may see: decisions of other projects
        must not be distinguishable from unknown ones.

    Raises:
        UnavailableError: a child zone that may have the decision does not answer.
    """
    uuid = key if server is None else server
    remote = await visible_remote(call, uuid) if is_uuid(uuid) else None
    if remote is not None:
        decision = await _ask_for_one(call, remote, key)
        if decision is not None:
            return decision
        key = remote.request_id if key == uuid else key
    decision = await decision_called(call.parts.ledger, key)
    if decision is not None and may_see(call, decision):
        return decision
    return await _ask_all(call, key) if remote is None and key.startswith(_REQUEST) else None


async def decisions_of_server(call: Call, uuid: str) -> list[Decision]:
    """Return the decisions about a server, newest first, from this zone and those below it.

    Raises:
        NotFoundError: the caller sees no such server.
        UnavailableError: the child zone with the server does not answer.
    """
    ledger = call.parts.ledger
    remote = await visible_remote(call, uuid)
    if remote is None:
        instance = await ledger.get(Instance, uuid)
        if instance is None or call.project_id not in {None, instance.project_id}:
            raise NotFoundError("instance", uuid)
        return await decisions_about(ledger, instance)
    query = urlencode({"server": uuid})
    tenant = remote.project_id, remote.user_id
    body = await _ask(call, zone_with(call, remote), f"{_PATH}?{query}", tenant)
    found = [] if body is None else _decoded(call, body, DecisionsAnswer).decisions
    below = [without_hosts(one) for one in found if one.project_id == remote.project_id]
    here = await ledger.get(Decision, remote.request_id)
    return below if here is None else [*below, here]


async def _ask_for_one(call: Call, remote: RemoteInstance, key: str) -> Decision | None:
    """Return the decision that the zone of a server has under an id, or None."""
    uuid = remote.instance_uuid
    query = "" if key == uuid else "?" + urlencode({"server": uuid})
    path = f"{_PATH}/{quote(key, safe='')}{query}"
    tenant = remote.project_id, remote.user_id
    body = await _ask(call, zone_with(call, remote), path, tenant)
    return None if body is None else _theirs(_decoded(call, body, Decision), remote.project_id)


async def _ask_all(call: Call, key: str) -> Decision | None:
    """Return the decision that a child has under an id for the caller's project, or None."""
    parts = call.parts.zones
    if parts is None:
        return None
    marks = marks_of(call)
    if parts.loop_tokens.is_among(marks):
        return None
    marks = (*marks, parts.loop_tokens.new())
    path = f"{_PATH}/{quote(key, safe='')}"
    tenant = call.identity.project_id, call.identity.user_id
    zones = [one.zone for one in parts.watch.states().values()]
    asked = (_ask(call, zone, path, tenant, marks) for zone in zones)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, bytes):
            decision = _theirs(_decoded(call, answer, Decision), tenant[0])
            if decision is not None:
                return decision
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return None


async def _ask(
    call: Call, zone: Zone, path: str, tenant: tuple[str, str], marks: tuple[bytes, ...] = ()
) -> bytes | None:
    """Return the body of a child's response, or None if the child has nothing there.

    Raises:
        UnavailableError: the child does not answer, or answers with an error.
    """
    parts = call.parts.zones
    within_s = 0.0 if parts is None else time_left_s(call, parts.select_timeout_s)
    request = ForwardedRequest("GET", path)
    try:
        answer = await ask_child(call, zone, request, tenant=tenant, within_s=within_s, marks=marks)
    except UnavailableError as error:
        call.parts.telemetry.failure("zone_request_failed", error, zone=zone.name)
        raise UnavailableError(_UNAVAILABLE) from error
    # 403 is the answer of a child of an earlier version, which has no such operation for parents.
    if answer.status in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
        return None
    if answer.status != HTTPStatus.OK:
        call.parts.telemetry.event("zone_response_invalid", zone=zone.name)
        raise UnavailableError(_UNAVAILABLE)
    return answer.body


def _decoded(call: Call, body: bytes, kind: type[_T]) -> _T:
    try:
        check_depth(body, call.parts.limits.json_depth_max)
        return decode(body, kind)
    except (InvalidInputError, HttpError) as error:
        raise UnavailableError(_UNAVAILABLE) from error


def _theirs(decision: Decision, project_id: str) -> Decision | None:
    """Return a child's decision without its layout, or None if it is another project's."""
    return without_hosts(decision) if decision.project_id == project_id else None


def without_hosts(decision: Decision) -> Decision:
    """Return a decision for tenants, without anything that names hosts, providers or zones."""
    return replace(
        decision,
        filters=_counts(decision.filters),
        placements=tuple(_placement(one) for one in decision.placements),
        refusal=None if decision.refusal is None else _refusal(decision.refusal),
        zones=(),
    )


def _counts(filters: tuple[FilterCount, ...]) -> tuple[FilterCount, ...]:
    """Return counts without the examples, which name hosts; a tenant needs only the numbers."""
    return tuple(replace(count, removed_examples=()) for count in filters)


def _placement(placement: Placement) -> Placement:
    chosen = replace(placement.chosen, host="", node="")
    return replace(
        placement,
        host="",
        node="",
        provider_uuid="",
        chosen=chosen,
        runners_up=(),
        alternates=(),
        assignment=None,
    )


def _refusal(refusal: Refusal) -> Refusal:
    relaxations = tuple(replace(one, examples=(), parts=()) for one in refusal.relaxations)
    return replace(refusal, filters=_counts(refusal.filters), relaxations=relaxations)
