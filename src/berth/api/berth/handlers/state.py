"""Handlers that show instance records, and the state on which all decisions depend."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import cast

from berth.api.berth.schemas.instances import BoundZoneAnswer, BoundZoneBody
from berth.api.codec import encode
from berth.api.compute.handlers.servers.action_arguments import caller_of
from berth.api.fleet import zone_of, zones_of
from berth.api.refusals import fault_for
from berth.api.routing import Answer, Call
from berth.domain.compute.instance import Instance, Status
from berth.domain.errors import NotFoundError
from berth.domain.ledger.change import Snapshot


async def show_instance(call: Call) -> Answer:
    """Show the record of an instance, even a deleted one; only administrators see its host.

    Raises:
        NotFoundError: there is no such instance in a project that the caller may see.
    """
    key = call.key("instance_uuid")
    instance = await call.parts.instances.get(key)
    if call.project_id not in {None, instance.project_id}:
        raise NotFoundError("instance", key)
    if not call.identity.is_admin:
        instance = replace(
            instance,
            host=None,
            node=None,
            retried=(),
            alternates=(),
            assignment=None,
            fault=None if instance.fault is None else fault_for(call, instance.fault),
        )
    return Answer(instance)


async def show_zone(call: Call) -> Answer:
    """Show the availability zone that a server is bound to, and that of its host.

    Raises:
        NotFoundError: there is no such server.
    """
    await call.parts.follower.catch_up()
    instance = await _live_instance(call)
    zone = zone_of(call.parts, instance.host) if instance.host else None
    return Answer(
        BoundZoneAnswer(
            instance_uuid=instance.uuid,
            availability_zone=instance.requested_zone,
            host=instance.host,
            host_availability_zone=zone,
        )
    )


async def bind_zone(call: Call) -> Answer:
    """Bind a server to an availability zone, or to none, and show the result.

    Raises:
        InvalidInputError: there is no such zone.
        NotFoundError: there is no such server.
        ConflictError: without `force`, the host is in another zone, a task is in progress, or a
            move waits for confirmation and might be reverted to a host in another zone.
    """
    parts, zone = call.parts, call.body(BoundZoneBody).availability_zone
    await parts.instances.check_zone(zone)
    await parts.follower.catch_up()
    instance = await _live_instance(call)
    await parts.operations.bind_zone(
        instance.uuid, zone, caller_of(call), partial(zones_of, parts), force=call.is_forced
    )
    return await show_zone(call)


async def _live_instance(call: Call) -> Instance:
    key = call.key("instance_uuid")
    instance = await call.parts.instances.get(key)
    if instance.status is Status.DELETED:
        raise NotFoundError("instance", key)
    return instance


# This many records are encoded before other requests get a turn.
_CHUNK = 256


async def show_state(call: Call) -> Answer:
    """Show the state as of one ledger version.

    The response omits removed child zones, the passwords of zones and the keys of hosts.
    """
    # The document is meant to be saved and passed on, so it must not contain even a sealed
    # password.
    snapshot = await call.parts.ledger.snapshot(call.parts.clock.now_s())
    zones = tuple(
        replace(zone, sealed_password="") for zone in snapshot.zones if not zone.is_removed
    )
    services = tuple(map(call.parts.replica.with_heartbeat, snapshot.services))
    # No decision reads the keys of hosts, so they are also left out.
    snapshot = replace(snapshot, zones=zones, services=services, host_identities=())
    return Answer(chunks=_chunks(snapshot))


async def _chunks(snapshot: Snapshot) -> AsyncIterator[bytes]:
    """Encode a snapshot in chunks, and let other tasks run in between."""
    comma = b"{"
    for field in fields(snapshot):
        value: object = getattr(snapshot, field.name)
        yield comma + encode(field.name) + b":"
        comma = b","
        if not isinstance(value, tuple):
            yield encode(value)
            continue
        items = cast("Sequence[object]", value)
        yield b"["
        for start in range(0, len(items), _CHUNK):
            yield (b"," if start else b"") + encode(items[start : start + _CHUNK])[1:-1]
            # Encoding never waits, so a large state would block the event loop without this pause.
            await asyncio.sleep(0)
        yield b"]"
    yield b"}"
