"""Waiting for servers: one loop for all commands with `--wait`, with a display of the progress."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, TypeVar

import click

from berth.cli.connection import ApiConnection, Json, part, rows, segment
from berth.cli.failures import CommandError, ExitCode, end_with
from berth.cli.output import plain
from berth.cli.progress import Item, Phase, Progress, progress
from berth.cli.server_finding import HOST, PATH, TASK, find_servers

T = TypeVar("T")

# The first pause between two polls is short, since simulated hosts act within milliseconds. The
# pause doubles up to two seconds, so that a long wait does not load the service.
FIRST_POLL_S: Final = 0.05
_LAST_POLL_S: Final = 2.0
# The service goes on while its API restarts, so a command waits for it.
_AWAY_MAX_S: Final = 120.0
# From this number of servers on, one list replaces a request for each server.
_LISTED_MIN: Final = 20
_ERRORS_TOLD_MAX: Final = 20
_RESERVATION: Final = "OS-EXT-SRV-ATTR:reservation_id"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A server at the end of a wait, None if it is gone; `error` says why the wait failed."""

    server: Json | None
    error: CommandError | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a server at one poll: the item to show, and the outcome once there is one."""

    item: Item
    outcome: Outcome | None = None


LookAt: TypeAlias = Callable[[Sequence[Json]], Mapping[str, Look]]
"""(servers) -> what is seen of each now, by uuid."""

Judge: TypeAlias = Callable[[Json, Json | None], Look]
"""(server before, server now or None if it is gone) -> what is seen of it."""


def wait_for(
    servers: Sequence[Json], look_at: LookAt, *, doing: str, timeout_s: float, quiet: bool = False
) -> list[Outcome]:
    """Wait until there is an outcome for each server, and return them in the same order.

    A server without one at the end of the time has an error as its outcome.

    Args:
        servers: the servers, as they were before.
        look_at: looks at those of them that have no outcome yet.
        doing: what the command waits for, such as `building servers`.
        timeout_s: seconds to wait for all of them.
        quiet: whether to print nothing if standard error is no terminal, as with `--json`.

    Raises:
        CommandError: the service refuses to answer, or was unreachable for two minutes.
    """
    ends_s = time.monotonic() + timeout_s
    items = {one["id"]: item_of(one, "waiting", Phase.WAITING) for one in servers}
    found: dict[str, Outcome] = {}
    pause_s = FIRST_POLL_S
    with progress(doing, quiet=quiet) as shown:
        patience = Patience(shown, items)
        while True:
            left = [one for one in servers if one["id"] not in found]
            for uuid, look in (patience.ask(partial(look_at, left)) or {}).items():
                items[uuid] = look.item
                if look.outcome is not None:
                    found[uuid] = look.outcome
            if not patience.is_away:
                shown.show(items)
            if len(found) == len(items) or time.monotonic() + pause_s > ends_s:
                break
            shown.pause(pause_s)
            pause_s = min(pause_s * 2, _LAST_POLL_S)
    return [found.get(one["id"]) or _late(one, items[one["id"]]) for one in servers]


class Patience:
    """Tolerates a short outage of the service during a wait.

    Args:
        shown: shows the outage.
        items: the items that it shows beside the outage.

    Attributes:
        is_away: whether the service could not be reached the last time.
    """

    def __init__(self, shown: Progress, items: Mapping[str, Item]) -> None:
        self.is_away = False
        self._shown = shown
        self._items = items
        self._seen_s = time.monotonic()

    def ask(self, request: Callable[[], T]) -> T | None:
        """Return the result of a request, or None if the service cannot be reached now.

        Raises:
            CommandError: the request fails for another reason, or the service was unreachable for
                two minutes.
        """
        try:
            answer = request()
        except CommandError as error:
            is_away = error.code is ExitCode.UNREACHABLE
            if not is_away or time.monotonic() - self._seen_s > _AWAY_MAX_S:
                raise
            self.is_away = True
            self._shown.show(self._items, f"{error}; trying again")
            return None
        self.is_away, self._seen_s = False, time.monotonic()
        return answer


def until_settled(api: ApiConnection) -> LookAt:
    """Return a look at servers whose outcome is there once they have no task in progress.

    The outcome has an error if the last action failed.
    """
    return _judged_by(api, partial(_judge_settled, api))


def until_built(api: ApiConnection) -> LookAt:
    """Return a look at servers whose outcome is there once they are built or in ERROR."""
    return _judged_by(api, _judge_built)


def until_deleted(api: ApiConnection, *, for_good: bool) -> LookAt:
    """Return a look at servers whose outcome is there once they are deleted.

    Args:
        api: the connection.
        for_good: whether a server that can still be restored does not count as deleted.
    """
    gone = {"DELETED"} if for_good else {"DELETED", "SOFT_DELETED"}

    def judge(before: Json, now: Json | None) -> Look:
        if now is None or now.get("status") in gone:
            return Look(item_of(before, "deleted", Phase.DONE), Outcome(now))
        return Look(item_of(before, "being deleted", Phase.ACTIVE))

    return _judged_by(api, judge)


def end_with_errors(outcomes: Sequence[Outcome]) -> None:
    """End the command if an outcome is an error; one error is raised, several are printed.

    Raises:
        CommandError: exactly one outcome has an error.
    """
    errors = [one.error for one in outcomes if one.error is not None]
    if len(errors) == 1:
        raise errors[0]
    for error in errors[:_ERRORS_TOLD_MAX]:
        click.echo(f"berth: {plain(error)}", err=True)
    if len(errors) > _ERRORS_TOLD_MAX:
        click.echo(f"berth: and {len(errors) - _ERRORS_TOLD_MAX:,} more", err=True)
    if errors:
        end_with(ExitCode.FAILED)


def outcome_documents(before: Sequence[Json], outcomes: Sequence[Outcome]) -> list[Json]:
    """Return the servers at the end of a wait for `--json`; a failed one also has an `error`.

    Args:
        before: the servers before the wait; those that are gone are taken from here.
        outcomes: their outcomes, in the same order.
    """
    return [
        (outcome.server or server) | ({"error": str(outcome.error)} if outcome.error else {})
        for server, outcome in zip(before, outcomes, strict=True)
    ]


def count_text(count: int) -> str:
    """Return a number of servers as text: `1 server`, `1,000 servers`."""
    return f"{count:,} server{'' if count == 1 else 's'}"


def item_of(server: Json, text: str, phase: Phase) -> Item:
    """Return the item that shows a server."""
    return Item(str(server.get("name")), text, phase)


def _judged_by(api: ApiConnection, judge: Judge) -> LookAt:
    def look_at(servers: Sequence[Json]) -> Mapping[str, Look]:
        now = _now(api, servers)
        return {one["id"]: judge(one, now.get(one["id"])) for one in servers}

    return look_at


def _now(api: ApiConnection, servers: Sequence[Json]) -> dict[str, Json]:
    """Return the servers as they are now, by uuid; those that are gone are missing."""
    reservations = {one.get(_RESERVATION) for one in servers}
    if len(servers) >= _LISTED_MIN and len(reservations) == 1 and None not in reservations:
        listed = find_servers(api, reservation_id=reservations.pop())
        return {one["id"]: one for one in listed}
    answers = [api.find(f"{PATH}/{segment(one['id'])}") for one in servers]
    found = [part(answer, "server") for answer in answers if answer is not None]
    return {one["id"]: one for one in found}


def _judge_built(before: Json, now: Json | None) -> Look:
    if now is None:
        return _vanished(before)
    status = str(now["status"])
    if status == "BUILD":
        return Look(item_of(now, "being built", Phase.ACTIVE))
    if status == "ERROR":
        message = part(now, "fault").get("message")
        text = f"ERROR: {message}" if message else "ERROR"
        return Look(item_of(now, text, Phase.FAILED), Outcome(now))
    host = f" on {now[HOST]}" if now.get(HOST) else ""
    return Look(item_of(now, f"{status}{host}", Phase.DONE), Outcome(now))


def _judge_settled(api: ApiConnection, before: Json, now: Json | None) -> Look:
    if now is None:
        return _vanished(before)
    task = now.get(TASK)
    if task is not None:
        return Look(item_of(now, str(task), Phase.ACTIVE))
    error = _failure_of(api, now)
    if error is not None:
        return Look(item_of(now, str(error), Phase.FAILED), Outcome(now, error))
    return Look(item_of(now, settled_text(now), Phase.DONE), Outcome(now))


def settled_text(server: Json) -> str:
    """Return the status of a server and its host, if any: `is ACTIVE on rack1-a`."""
    host = server.get(HOST)
    return f"is {server['status']}" + (f" on {host}" if host else "")


def _failure_of(api: ApiConnection, server: Json) -> CommandError | None:
    # A failed action ends like a successful one, with no task; only the newest entry of the history
    # contains its error.
    uuid = server["id"]
    history = rows(api.get(f"{PATH}/{segment(uuid)}/os-instance-actions"), "instanceActions")
    if not history or not history[0].get("message"):
        return None
    return CommandError(
        f"{history[0]['action']} failed, and server {uuid} is {server['status']}; see `berth "
        f"server actions {uuid}` for the failed step and `berth explain {uuid}` for the choice "
        "of hosts"
    )


def _vanished(server: Json) -> Look:
    error = CommandError(f"server {server['id']} was deleted meanwhile", ExitCode.NOT_FOUND)
    return Look(item_of(server, "was deleted meanwhile", Phase.FAILED), Outcome(None, error))


def _late(server: Json, item: Item) -> Outcome:
    text = f"server {server['id']} is still {item.text}; wait longer with --timeout"
    return Outcome(server, CommandError(text))
