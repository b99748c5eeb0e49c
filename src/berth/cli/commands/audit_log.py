"""`berth audit-log`: who changed what, and whether the log is complete and unaltered."""

import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final, TextIO, TypedDict, TypeVar

import click
import msgspec

from berth.cli.command import berth_group
from berth.cli.connection import ApiConnection, Json, connected
from berth.cli.failures import CommandError, ExitCode
from berth.cli.output import joined, json_option, print_fields, print_json, print_line, print_table
from berth.client.audit_log import PAGE_MAX
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.audit_trail import ChainCheck, Link

F = TypeVar("F", bound=Callable[..., object])

_HEAD: Final = re.compile(r"([0-9]{1,15}):([0-9a-f]{64})")
_CHAIN: Final = frozenset({"number", "previous", "hash"})
_FAULTS_MAX: Final = 100
_MS_PER_S: Final = 1000


@berth_group("audit-log")
def audit_log() -> None:
    """Show who changed what, export it, and verify that nothing was altered."""


def _conditions(command: F) -> F:
    """Add the options that select entries to a command."""
    for option in reversed(
        [
            click.option("--by", "user_id", metavar="USER", help="Only changes by this user."),
            click.option("--project", "project_id", help="Only changes by users of this project."),
            click.option("--target", help="Only changes of what has this id or name."),
            click.option("--operation", help="Only operations that contain this text."),
            click.option("--request", "request_id", help="Only changes of this request."),
            click.option("--since", metavar="TIME", help="Only changes at this time or later."),
            click.option("--until", metavar="TIME", help="Only changes before this time."),
        ]
    ):
        command = option(command)
    return command


@audit_log.command("list")
@_conditions
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Maximum number of entries.",
)
@json_option
@connected
def list_entries(
    api: ApiConnection, /, *, limit: int, as_json: bool, **conditions: str | None
) -> None:
    """List changes, the newest first. TIME is in ISO 8601, such as 2027-01-31T12:00+01:00."""
    entries = api.berth.audit_log.list.documents(
        **_conditions_of(conditions), page_size=min(limit, PAGE_MAX)
    )
    found = list(islice(entries, limit))
    if as_json:
        print_json({"entries": found})
        return
    shown = [
        (
            one["number"],
            _time_of(one),
            one["user_id"] or one["process"],
            one["operation"],
            _what(one),
            one["status"] or "-",
        )
        for one in found
    ]
    print_table(("Number", "Time", "Who", "Operation", "What", "Status"), shown, right=("Number",))


@audit_log.command("show")
@click.argument("number", type=click.IntRange(1))
@json_option
@connected
def show(api: ApiConnection, *, number: int, as_json: bool) -> None:
    """Show one entry with all its fields."""
    entry = api.berth.audit_log.get.document(number)
    if as_json:
        print_json(entry)
        return
    fields = {**entry, "at": _time_of(entry), "roles": ", ".join(entry["roles"])}
    fields |= {name: joined(entry[name]) for name in ("targets", "details")}
    del fields["at_ms"]
    print_fields(fields)


@audit_log.command("export")
@_conditions
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File; standard output if absent.",
)
@click.option("--after", type=click.IntRange(0), default=0, help="Only entries after this number.")
@connected
def export(
    api: ApiConnection, /, *, output: Path | None, after: int, **conditions: str | None
) -> None:
    """Export entries as lines of JSON, the oldest first.

    Without conditions the export is a complete chain, which `verify --file` checks.
    """
    with _written(output) as file:
        count = 0
        entries = api.berth.audit_log.list.documents(**_conditions_of(conditions), after=after)
        for one in entries:
            file.write(f"{msgspec.json.encode(one).decode()}\n")
            count += 1
    if output is not None:
        print_line(f"exported {count:,} entries to {output}")


@audit_log.command("verify")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Verify an export instead of the running Berth.",
)
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="NUMBER:HASH",
    help="A head that was noted before and must be in the chain. May be repeated.",
)
@json_option
@connected
def verify(api: ApiConnection, *, file: Path | None, heads: tuple[str, ...], as_json: bool) -> None:
    """Verify that no entry was altered, inserted, removed or moved, and print the head.

    The hashes are computed here, not by the service. A writer of the ledger could compute
    the whole chain anew, or cut off its end; only a head noted elsewhere shows this: store the
    printed head in another place, and name it next time with --head. Exits with 1 on faults.
    """
    check = ChainCheck(dict(map(_parse_head, heads)))
    for one in _from_file(file) if file is not None else _from_service(api):
        check.add(one)
    faults, head = check.faults(), check.head
    if as_json:
        found = [{"number": one.number, "reason": one.reason} for one in faults[:_FAULTS_MAX]]
        end = {"number": head.number, "hash": head.hash}
        print_json({"checked": check.checked, "head": end, "faults": found})
    else:
        for fault in faults[:_FAULTS_MAX]:
            print_line(f"entry {fault.number}: {fault.reason}")
        print_line(f"verified {check.checked:,} entries, head {head.number}:{head.hash}")
    if faults:
        raise CommandError(f"the audit log has {len(faults):,} faults", ExitCode.FAILED)


def _parse_head(text: str) -> tuple[int, str]:
    match = _HEAD.fullmatch(text)
    if match is None:
        reason = f"{text!r} must be NUMBER:HASH, as printed by `berth audit-log verify`"
        raise InvalidInputError("--head", reason)
    return int(match[1]), match[2]


def _from_service(api: ApiConnection) -> Iterator[Link]:
    yield from map(_link_of, api.berth.audit_log.list.documents(after=0))


def _from_file(path: Path) -> Iterator[Link]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield _link_of(msgspec.json.decode(line))
                except (ValueError, TypeError, KeyError) as error:
                    reason = f"is not an entry of the audit log ({error})"
                    raise InvalidInputError(f"{path}: line {number}", reason) from error
    except OSError as error:
        raise InvalidInputError(str(path), f"cannot be read ({error.strerror})") from error


def _link_of(one: Json) -> Link:
    """Return an entry from its JSON, with all fields of it, also those of a later version.

    Raises:
        KeyError: it has no number or hash.
        ValueError: its number is not one.
    """
    content = {name: value for name, value in one.items() if name not in _CHAIN}
    return Link(int(one["number"]), str(one["previous"]), str(one["hash"]), content)


class _Conditions(TypedDict, total=False):
    """Conditions on entries, as the client library takes them."""

    user_id: str | None
    project_id: str | None
    target: str | None
    operation: str | None
    request_id: str | None
    since_ms: int
    until_ms: int


def _conditions_of(given: dict[str, str | None]) -> _Conditions:
    """Return the conditions of the options that select entries."""
    found: _Conditions = {
        "user_id": given["user_id"],
        "project_id": given["project_id"],
        "target": given["target"],
        "operation": given["operation"],
        "request_id": given["request_id"],
    }
    if (since := given["since"]) is not None:
        found["since_ms"] = _milliseconds(since, "--since")
    if (until := given["until"]) is not None:
        found["until_ms"] = _milliseconds(until, "--until")
    return found


def _milliseconds(text: str, option: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        reason = f"{text!r} must be a time in ISO 8601, such as 2027-01-31T12:00+01:00"
        raise InvalidInputError(option, reason) from error
    # A time without an offset is in UTC, like all times that Berth prints.
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * _MS_PER_S)


@contextmanager
def _written(output: Path | None) -> Generator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        # The export names users and addresses, so other users of the machine may not read it.
        output.touch(mode=0o600, exist_ok=True)
        with output.open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise InvalidInputError(str(output), f"cannot be written ({error.strerror})") from error


def _time_of(entry: Json) -> str:
    at = datetime.fromtimestamp(entry["at_ms"] / _MS_PER_S, UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _what(entry: Json) -> str:
    action = entry["details"].get("action")
    targets = joined(entry["targets"])
    return f"{action} {targets}" if action else targets
