"""Upkeep of hosts: their allocation ratios, and writing off those that are lost."""

from berth.api.berth.handlers.hosts import host_answer
from berth.api.berth.schemas.upkeep import RatiosBody, WriteOffAnswer, WrittenOffMove
from berth.api.routing import Answer, Call
from berth.domain.compute.migration import Migration
from berth.services.fleet.allocation_ratios import RatioOverrides
from berth.services.fleet.write_off import WriteOffPlan, WriteOffService


async def set_ratios(call: Call) -> Answer:
    """Set allocation ratios of a host while it runs."""
    parts, name = call.parts, call.key("name")
    setting = RatioOverrides(parts.ledger, parts.follower, parts.replica)
    await setting.set(name, call.body(RatiosBody).ratios)
    return Answer(host_answer(parts, await parts.hosts.get(name)))


async def plan_write_off(call: Call) -> Answer:
    """Tell what writing off a host would end and free."""
    found = await _writing_off(call).plan(
        call.key("name"), service_down_time_s=call.parts.service_down_time_s
    )
    return Answer(_answer(found, is_done=False))


async def write_off(call: Call) -> Answer:
    """End what moves have left on a host that is lost."""
    done = await _writing_off(call).write_off(
        call.key("name"), service_down_time_s=call.parts.service_down_time_s
    )
    return Answer(_answer(done, is_done=True))


def _writing_off(call: Call) -> WriteOffService:
    parts = call.parts
    return WriteOffService(parts.ledger, parts.clock, parts.telemetry)


def _answer(found: WriteOffPlan, *, is_done: bool) -> WriteOffAnswer:
    return WriteOffAnswer(
        host=found.host,
        is_done=is_done,
        moves=[_move(one.migration, one.held) for one in found.moves],
        freed=found.freed,
        instances=list(found.instances),
        waiting=[_move(one, {}) for one in found.waiting],
    )


def _move(migration: Migration, held: dict[str, int]) -> WrittenOffMove:
    return WrittenOffMove(
        uuid=migration.uuid,
        id=migration.number,
        instance_uuid=migration.instance_uuid,
        kind=migration.kind,
        stage=migration.stage,
        held=held,
    )
