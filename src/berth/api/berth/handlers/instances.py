"""Instances as they are kept."""

from dataclasses import replace

from berth.api.routing import Answer, Call
from berth.domain.errors import NotFoundError


async def show_instance(call: Call) -> Answer:
    """Show the record of an instance, a deleted one too; only administrators see its host."""
    key = call.key("instance_uuid")
    instance = await call.parts.instances.get(key)
    if call.project_id not in {None, instance.project_id}:
        raise NotFoundError("instance", key)
    if not call.identity.is_admin:
        instance = replace(
            instance, host=None, node=None, retried=(), alternates=(), assignment=None
        )
    return Answer(instance)
