"""Asking both sides about one case, and the differences between their answers."""

from dataclasses import replace

from tests.differential.answers import Answer, ask_berth
from tests.differential.cases import Case
from tests.differential.comparing import Difference, differences, raising, wanted_by
from tests.differential.nova import Nova
from tests.differential.wanted import excused, wants_hardware
from tests.differential.wire import to_wire


def ask_both(nova: Nova, case: Case) -> tuple[Answer, Answer]:
    """Return the answers of Berth and Nova about a case."""
    berth, chosen = ask_berth(case)
    return berth, nova.ask(to_wire(case, chosen))


def settle(case: Case, berth: Answer, nova: Answer) -> Case:
    """Return the case without rules that differ deliberately, or fail, in the combined order.

    The remaining rules must agree without exception.
    """
    found = differences(case, berth, nova)
    differing = {one.rule for one in found if wanted_by(case, one) is not None}
    differing |= raising(berth) | raising(nova) | excused(case)
    filters, weighers = case.order
    request = case.request
    if wants_hardware(case):
        request = replace(request, instance_uuids=request.instance_uuids[:1])
    return replace(
        case,
        request=request,
        order=(
            tuple(pair for pair in filters if pair.name not in differing),
            tuple(pair for pair in weighers if pair.name not in differing),
        ),
    )


def ask_about(nova: Nova, case: Case) -> tuple[Answer, list[Difference]]:
    """Return Nova's answer about a case and every difference, wanted or not."""
    berth, theirs = ask_both(nova, case)
    settled = settle(case, berth, theirs)
    if settled != case and berth.refused is None and theirs.refused is None:
        together = replace(settled, filters=(), weighers=(), weighed=())
        mine, others = ask_both(nova, together)
        berth, theirs = replace(berth, steps=mine.steps), replace(theirs, steps=others.steps)
    return theirs, list(differences(settled, berth, theirs))


def unwanted(nova: Nova, case: Case) -> list[Difference]:
    """Return the differences that are not wanted."""
    return [one for one in ask_about(nova, case)[1] if wanted_by(case, one) is None]
