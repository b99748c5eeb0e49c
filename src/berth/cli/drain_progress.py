"""The progress of a drain, and the texts about the servers that it moves."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from berth.cli.connection import ApiConnection, Json, command_errors, part, rows
from berth.cli.progress import Item, Phase, progress
from berth.cli.waiting import Patience

RUNNING: Final = "running"
_MOVING: Final = "moving"
_MOVED: Final = "moved"
_POLL_S: Final = 1.0
_PHASES: Final[Mapping[str, Phase]] = {
    "moving": Phase.ACTIVE,
    "failed": Phase.FAILED,
    "blocked": Phase.FAILED,
    "waiting": Phase.WAITING,
    "moved": Phase.DONE,
}
_ORDER: Final[Mapping[str, int]] = {name: place for place, name in enumerate(_PHASES)}


def follow(api: ApiConnection, host: str, *, quiet: bool = False) -> Json:
    """Show a drain until no move is in progress and none will begin; return the maintenance.

    Args:
        api: the connection.
        host: the name of the host.
        quiet: whether to print nothing if standard error is no terminal, as with `--json`.

    Raises:
        CommandError: the maintenance has ended, or the service was unreachable for two minutes.
    """
    read = command_errors()(partial(api.berth.maintenance.get.document, host))
    items: dict[str, Item] = {}
    with progress(f"draining {host}", quiet=quiet) as shown:
        patience = Patience(shown, items)
        while True:
            found = patience.ask(read)
            if found is not None:
                drain = part(found, "drain")
                items.update(_items_of(drain))
                shown.show(items, drain.get("message") or "")
                if not drain or _is_over(drain):
                    return found
            shown.pause(_POLL_S)


def _is_over(drain: Json) -> bool:
    return drain["state"] != RUNNING and not part(drain, "counts").get(_MOVING)


def _items_of(drain: Json) -> dict[str, Item]:
    return {
        one["instance_uuid"]: Item(
            str(one["name"]), server_text(one), _PHASES.get(one["state"], Phase.WAITING)
        )
        for one in rows(drain, "servers")
    }


def server_text(server: Json) -> str:
    """Return what a drain does with one server as text."""
    state, method, host = server["state"], server.get("method"), server.get("destination")
    reason = server.get("reason")
    words = [state]
    if state in {_MOVING, "planned"} and method:
        words.append(method)
    if host and state in {_MOVING, _MOVED, "planned"}:
        words.append(f"to {host}")
    text = " ".join(words)
    return f"{text}: {reason}" if reason else text


def summary(drain: Json) -> str:
    """Return the number of servers in each state as text."""
    counts = {name: number for name, number in part(drain, "counts").items() if number}
    total = sum(counts.values())
    others = [f"{counts[name]} {name}" for name in sorted(counts, key=_place) if name != _MOVED]
    moved = f"{counts.get(_MOVED, 0)} of {total} moved"
    return ", ".join([moved, *others])


def _place(state: str) -> int:
    return _ORDER.get(state, len(_ORDER))
