"""Handlers for the action history of servers: the requested actions and their results."""

from collections.abc import Sequence

from berth.api.codec import UNSET
from berth.api.compute.handlers.periods import period_of
from berth.api.compute.schemas.lifecycle import (
    ActionAnswer,
    ActionsAnswer,
    ActionsQuery,
    ActionView,
    EventView,
)
from berth.api.compute.views.servers import host_id
from berth.api.errors import HttpError
from berth.api.links import limit_of, next_page, page_of
from berth.api.routing import Answer, Call
from berth.api.values import naive_time
from berth.domain.compute.instance import Instance, Status, creation_of, has_creation
from berth.domain.compute.instance_action import Action, ActionEvent
from berth.domain.errors import NotFoundError

# Microversions: 2.21 shows the history of deleted servers; 2.51 shows events to all callers; 2.58
# adds paging, `changes-since` and `updated_at`; 2.62 adds `hostId`, and for administrators `host`;
# 2.66 adds `changes-before`; 2.84 adds `details`.
_DELETED_TOO = (2, 21)
_EVENTS = (2, 51)
_PAGED = (2, 58)
_HOSTS = (2, 62)
_BEFORE = (2, 66)
_DETAILS = (2, 84)
_FAILED = "Error"


async def list_actions(call: Call) -> Answer:
    """List the actions of a server, newest first.

    Raises:
        NotFoundError: the server does not exist, belongs to a project that the caller may not see,
            or is deleted and the microversion is older than 2.21.
        InvalidInputError: a time is malformed, `changes-since` is after `changes-before`, or no
            action has the marker as its key.
    """
    instance, query = await _instance(call), call.query(ActionsQuery)
    actions = await _actions(call, instance)
    if call.version < _PAGED:
        return Answer(ActionsAnswer(actions=[_view(call, one) for one in actions]))
    since_s, before_s = period_of(query, is_paged=True, has_end=call.version >= _BEFORE)
    if since_s is not None:
        actions = [one for one in actions if _updated_at_s(one) >= since_s]
    if before_s is not None:
        actions = [one for one in actions if _updated_at_s(one) <= before_s]
    limit = limit_of(call, query.limit)
    keys = [one.request_id for one in actions]
    page = page_of(actions, keys, query.marker, limit)
    has_more = bool(page) and page[-1].request_id != keys[-1]
    links = next_page(call, page[-1].request_id, limit) if has_more else UNSET
    return Answer(ActionsAnswer(actions=[_view(call, one) for one in page], links=links))


async def show_action(call: Call) -> Answer:
    """Show an action of a server; non-administrators see its events from microversion 2.51 on.

    Raises:
        NotFoundError: the caller sees no such server.
        HttpError: 404 when the server has no such action.
    """
    instance, key = await _instance(call), call.key("request_id")
    for action in await _actions(call, instance):
        if action.request_id == key:
            view = _view(call, action)
            if call.identity.is_admin or call.version >= _EVENTS:
                view.events = [_event(call, instance, one) for one in action.events]
            return Answer(ActionAnswer(action=view))
    raise HttpError(404, f"Action {key[:80]} not found")


async def _instance(call: Call) -> Instance:
    """Return the instance that the path names.

    Raises:
        NotFoundError: the instance does not exist, belongs to a project that the caller may not
            see, or is deleted and the microversion is older than 2.21.
    """
    key = call.key("server_id")
    instance = await call.parts.instances.get(key)
    is_gone = instance.status is Status.DELETED and call.version < _DELETED_TOO
    if is_gone or call.project_id not in {None, instance.project_id}:
        raise NotFoundError("instance", key)
    return instance


async def _actions(call: Call, instance: Instance) -> Sequence[Action]:
    """Return all actions of an instance, newest first.

    If no record of the `create` action exists, the action is derived from the instance.
    """
    kept = await call.parts.ledger.actions(instance.uuid)
    if has_creation(instance, kept):
        return kept
    return [*kept, creation_of(instance)]


def _updated_at_s(action: Action) -> float:
    return action.started_at_s if action.ended_at_s is None else action.ended_at_s


def _view(call: Call, action: Action) -> ActionView:
    return ActionView(
        action=action.name,
        instance_uuid=action.instance_uuid,
        request_id=action.request_id,
        user_id=action.user_id,
        project_id=action.project_id,
        start_time=naive_time(action.started_at_s),
        # Nova shows the word `Error` here. The reason may name hosts, so this response omits it.
        message=_FAILED if action.message else None,
        updated_at=naive_time(_updated_at_s(action)) if call.version >= _PAGED else UNSET,
    )


def _event(call: Call, instance: Instance, event: ActionEvent) -> EventView:
    is_admin, version = call.identity.is_admin, call.version
    view = EventView(
        event=event.name,
        start_time=naive_time(event.started_at_s),
        finish_time=naive_time(event.ended_at_s),
        result=_FAILED if event.error else "Success",
    )
    if is_admin:
        view.traceback = event.error or None
    if version >= _HOSTS:
        # The digest equals a server's `hostId`, so callers can compare hosts without seeing their
        # names.
        view.host_id = host_id(call, instance.project_id, event.host or None)
        if is_admin:
            view.host = event.host
    if version >= _DETAILS and is_admin:
        view.details = event.error or None
    return view
