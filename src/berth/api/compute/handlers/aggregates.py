"""Handlers for host aggregates."""

from berth.api.codec import UNSET
from berth.api.compute.schemas.aggregates import (
    AggregateAction,
    AggregateAnswer,
    AggregateChangeBody,
    AggregatesAnswer,
    AggregateView,
    NewAggregateBody,
    check_zone_name,
)
from berth.api.microversion import Version
from berth.api.routing import Answer, Call
from berth.api.values import check_edges, naive_time
from berth.domain.compute.aggregate import AZ_KEY, Aggregate
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError

# Microversion 2.41 adds `uuid` to aggregates.
_UUID = (2, 41)
# An id in the path is an integer of at most this many digits. The limit keeps `int` from converting
# very long strings.
_DIGITS_MAX = 15


async def list_aggregates(call: Call) -> Answer:
    """List all aggregates."""
    found = await call.parts.aggregates.all()
    return Answer(AggregatesAnswer(aggregates=[_view(one, call.version) for one in found]))


async def create_aggregate(call: Call) -> Answer:
    """Create an aggregate without hosts.

    Raises:
        InvalidInputError: the body or the name is invalid.
        ConflictError: the name is taken, or every attempt lost a race against another change.
    """
    new = call.body(NewAggregateBody).aggregate
    check_edges(new.name, "aggregate.name")
    check_edges(new.availability_zone, "aggregate.availability_zone")
    metadata = {} if new.availability_zone is None else {AZ_KEY: new.availability_zone}
    aggregate = await call.parts.aggregates.create(new.name, metadata)
    # Like Nova's, this response has neither hosts nor metadata; clients expect that shape.
    return Answer(AggregateAnswer(aggregate=_view(aggregate, call.version, whole=False)))


async def show_aggregate(call: Call) -> Answer:
    """Show an aggregate.

    Raises:
        NotFoundError: there is no such aggregate.
    """
    return _answer(call, await call.parts.aggregates.get(_id(call)))


async def update_aggregate(call: Call) -> Answer:
    """Update the name or the availability zone of an aggregate.

    Raises:
        NotFoundError: there is no such aggregate.
        InvalidInputError: the body names neither field, or a value is invalid.
        ConflictError: the name is taken, or a host would be in two availability zones or leave the
            one to which a server on it is bound.
    """
    aggregate_id = _id(call)
    change = call.body(AggregateChangeBody).aggregate
    name, zone = change.name, change.availability_zone
    if name is UNSET and zone is UNSET:
        raise InvalidInputError("aggregate", "must contain name or availability_zone")
    check_edges(name, "aggregate.name")
    check_edges(zone, "aggregate.availability_zone")
    aggregates = call.parts.aggregates
    aggregate = await aggregates.get(aggregate_id)
    # Name and availability zone are written one after the other. The name is checked before either
    # is written, so that a request with a taken name does not change the availability zone.
    if name is not UNSET:
        await _check_name(call, aggregate_id, name)
    if zone is not UNSET:
        aggregate = await aggregates.set_metadata(
            aggregate_id, {AZ_KEY: zone}, force=call.is_forced
        )
    if name is not UNSET:
        aggregate = await aggregates.rename(aggregate_id, name)
    return _answer(call, aggregate)


async def delete_aggregate(call: Call) -> Answer:
    """Delete an aggregate that has no hosts.

    Raises:
        NotFoundError: there is no such aggregate.
        InvalidInputError: the aggregate still has hosts.
        ConflictError: every attempt lost a race against another change.
    """
    await call.parts.aggregates.delete(_id(call))
    return Answer()


async def act_on_aggregate(call: Call) -> Answer:
    """Add a host to an aggregate, remove a host from it, or set its metadata.

    Raises:
        NotFoundError: there is no such aggregate or host, or the host to remove is not a member.
        InvalidInputError: the body does not name exactly one action, or a value is invalid.
        ConflictError: the host is already a member, or a host would be in two availability zones or
            leave the one to which a server on it is bound.
    """
    aggregate_id = _id(call)
    action = call.body(AggregateAction)
    given = [one for one in (action.add_host, action.remove_host, action.set_metadata) if one]
    if len(given) != 1:
        raise InvalidInputError(
            "body", "must contain exactly one of add_host, remove_host and set_metadata"
        )
    aggregates, force = call.parts.aggregates, call.is_forced
    if action.add_host:
        host = action.add_host.host
        return _answer(call, await aggregates.add_host(aggregate_id, host, force=force))
    if action.remove_host:
        host = action.remove_host.host
        return _answer(call, await aggregates.remove_host(aggregate_id, host, force=force))
    # Null removes the availability zone. Metadata follows the rules of the other two requests that
    # set it, because a server could not be created in a zone whose name they refuse.
    metadata = action.set_metadata.metadata if action.set_metadata else {}
    check_zone_name(metadata.get(AZ_KEY), f"set_metadata.metadata.{AZ_KEY}")
    return _answer(call, await aggregates.set_metadata(aggregate_id, metadata, force=force))


async def _check_name(call: Call, aggregate_id: int, name: str) -> None:
    """Raise `ConflictError` if another aggregate has the name."""
    for other in await call.parts.aggregates.all():
        if other.name == name and other.aggregate_id != aggregate_id:
            raise ConflictError(f"aggregate {name} already exists")


def _id(call: Call) -> int:
    text = call.key("aggregate_id")
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise NotFoundError("aggregate", text)
    return int(text)


def _answer(call: Call, aggregate: Aggregate) -> Answer:
    return Answer(AggregateAnswer(aggregate=_view(aggregate, call.version)))


def _view(aggregate: Aggregate, version: Version, *, whole: bool = True) -> AggregateView:
    updated_at_s = aggregate.updated_at_s
    return AggregateView(
        id=aggregate.aggregate_id,
        name=aggregate.name,
        availability_zone=aggregate.metadata.get(AZ_KEY),
        created_at=naive_time(aggregate.created_at_s),
        updated_at=None if updated_at_s is None else naive_time(updated_at_s),
        deleted=False,
        deleted_at=None,
        hosts=sorted(aggregate.hosts) if whole else UNSET,
        metadata=dict(aggregate.metadata) if whole else UNSET,
        uuid=aggregate.uuid if version >= _UUID else UNSET,
    )
