"""Usages: what the consumers of a project hold, summed."""

from berth.api.placement.actions import Ask, Reply, json_reply
from berth.api.placement.finding import newest_of
from berth.api.placement.views.usages import usages_by_type, usages_of_project

_BY_TYPE = 38


async def show_usages(ask: Ask) -> Reply:
    """Show what a project uses, or one user in it; from 1.38 by type of consumer."""
    order = (await newest_of(ask)).vocabulary.class_order
    project = ask.last("project_id") or ""
    holdings = await ask.parts.ledger.project_consumers(project, ask.last("user_id"))
    if ask.minor < _BY_TYPE:
        return json_reply(usages_of_project(holdings, order))
    return json_reply(usages_by_type(holdings, ask.last("consumer_type"), order))
