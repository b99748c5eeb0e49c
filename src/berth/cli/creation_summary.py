"""The result of creating servers: one row each for a few, a summary for many."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from berth.cli.connection import ApiConnection, Json, part, rows, segment
from berth.cli.failures import CommandError, ExitCode
from berth.cli.listing import natural_key
from berth.cli.output import print_line, print_table
from berth.cli.server_finding import HOST, PATH
from berth.cli.waiting import count_text
from berth.client import NotFoundError

# More servers than this are counted instead of listed.
ROWS_MAX: Final = 20
_HOSTS_SHOWN_MAX: Final = 20
_REASONS_MAX: Final = 5
_CHANGES_MAX: Final = 3
_ZONE: Final = "OS-EXT-AZ:availability_zone"
_RESERVATION: Final = "OS-EXT-SRV-ATTR:reservation_id"
_ERROR: Final = "ERROR"
_UNKNOWN: Final = "no reason is known"
# The starts of fault messages that mean a lack of capacity. A server's fault contains no error code
# of its own, so only these texts distinguish a lack of capacity from failed builds.
_NO_ROOM: Final = ("No valid host", "Other schedulers took the room")


def print_summary(api: ApiConnection, made: Sequence[Json]) -> None:
    """Print how many servers are in which status, on which hosts, and why others are nowhere.

    Args:
        api: the connection.
        made: more servers than anyone would read one by one.
    """
    statuses = Counter(str(one["status"]) for one in made)
    counts = ", ".join(f"{count:,} {status}" for status, count in statuses.most_common())
    print_line(f"{count_text(len(made))}: {counts}")
    _print_hosts(made)
    _print_reasons(api, made)
    reservation = made[0].get(_RESERVATION)
    if reservation:
        print_line(f"\nsee `berth server list --reservation-id {reservation}`")


def check_built(api: ApiConnection, made: Sequence[Json]) -> None:
    """Check that no server is in ERROR.

    Raises:
        CommandError: a server is in ERROR; the message contains its fault.
    """
    failed = [server for server in made if server["status"] == _ERROR]
    if not failed:
        return
    message, uuid = _reason_of(api)(failed[0]), failed[0]["id"]
    no_room = message.startswith(_NO_ROOM)
    hint = f"see `berth explain {uuid}`" if no_room else "delete it and try again"
    code = ExitCode.NO_VALID_HOST if no_room else ExitCode.FAILED
    if len(made) > ROWS_MAX:
        # The summary has the reasons.
        raise CommandError(f"{count_text(len(failed))} in ERROR; see `berth explain {uuid}`", code)
    raise CommandError(f"server {uuid} is in ERROR: {message} ({hint})", code)


def _print_hosts(made: Sequence[Json]) -> None:
    placed = [one for one in made if one.get(HOST) and one["status"] != _ERROR]
    if not placed:
        return
    hosts = Counter((str(one[HOST]), one.get(_ZONE)) for one in placed)
    ordered = sorted(hosts.items(), key=lambda one: (-one[1], natural_key(one[0][0])))
    table = [(host, zone, count) for (host, zone), count in ordered[:_HOSTS_SHOWN_MAX]]
    title = f"Placed on {len(hosts):,} {'host' if len(hosts) == 1 else 'hosts'}"
    print_table(("Host", "Zone", "Servers"), table, title=title, right=("Servers",))
    if len(ordered) > len(table):
        left = ordered[len(table) :]
        servers = count_text(sum(count for _, count in left))
        print_line(f"and {servers} on {len(left):,} more hosts")


def _print_reasons(api: ApiConnection, made: Sequence[Json]) -> None:
    """Print each reason for which servers are in ERROR, with the changes that would help."""
    by_reason: dict[str, list[Json]] = defaultdict(list)
    reason_of = _reason_of(api)
    for one in made:
        if one["status"] == _ERROR:
            by_reason[reason_of(one)].append(one)
    ordered = sorted(by_reason.items(), key=lambda one: -len(one[1]))
    for reason, servers in ordered[:_REASONS_MAX]:
        print_line(f"\n{count_text(len(servers))} not created: {reason}")
        for change in _changes(api, servers[0])[:_CHANGES_MAX]:
            print_line(f"  would fit: {change}")
    if len(ordered) > _REASONS_MAX:
        print_line(f"\nand {len(ordered) - _REASONS_MAX:,} more reasons")


def _reason_of(api: ApiConnection) -> Callable[[Json], str]:
    """Return a function that returns the fault of a server, which costs few requests."""
    fetched: list[str] = []

    def reason_of(server: Json) -> str:
        message = part(server, "fault").get("message")
        if message:
            return str(message)
        # A server from a list may lack its fault. Those of one request usually share it, and a
        # request for each of a thousand would take long.
        if not fetched:
            answer = api.find(f"{PATH}/{segment(server['id'])}") or {}
            found = part(part(answer, "server"), "fault").get("message", _UNKNOWN)
            fetched.append(str(found))
        return fetched[0]

    return reason_of


def _changes(api: ApiConnection, server: Json) -> list[str]:
    """Return the changes that would have let a refused request fit, the nearest first."""
    try:
        decision = api.berth.decisions.explain.document(server["id"])
    except NotFoundError:
        return []
    found = rows(part(decision, "refusal"), "relaxations")
    return [str(one["text"]) for one in found]
