"""The picture of `berth top`: amounts as bars, the queue, the schedulers, and the busiest hosts."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from berth.cli.connection import Json, part, rows, texts
from berth.cli.output import plain
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, PCPU, VCPU

_CLASSES_FIRST: Final = (VCPU, PCPU, MEMORY_MB, DISK_GB)
_BAR_WIDTH: Final = 30
_BAR_MIN: Final = 5
_HOST_BAR_WIDTH: Final = 10
_GAP: Final = "  "
# Shares of a resource class at which its bar changes colour.
_HIGH: Final = 0.9
_MEDIUM: Final = 0.7
_ID_LENGTH: Final = 8
_SCHEDULERS_MAX: Final = 5
_PERCENT_WIDTH: Final = 5


class _Signs(NamedTuple):
    used: str
    free: str
    reserved: str


_UNICODE: Final = _Signs("█", "░", "▒")
_ASCII: Final = _Signs("#", ".", "x")


def top_lines(answer: Json, *, width: int, height: int | None) -> list[Text]:
    """Return the picture of a fleet.

    Args:
        answer: the response of the service.
        width: the width of the terminal in characters.
        height: the number of its lines; None for all hosts of the response.
    """
    signs = _signs()
    lines = [_summary(answer), _rates(answer), *_schedulers(answer), Text()]
    lines += _totals(part(answer, "resources"), width, signs)
    lines.append(Text())
    found = rows(answer, "busiest")
    room = len(found) if height is None else max(height - len(lines) - 1, 0)
    lines += _hosts(found[:room], _ordered(part(answer, "resources")), width, signs)
    return lines


def _signs() -> _Signs:
    encoding = (sys.stdout.encoding or "ascii").lower()
    return _UNICODE if encoding.startswith("utf") else _ASCII


def _summary(answer: Json) -> Text:
    hosts, queue = part(answer, "hosts"), part(answer, "queue")
    at = datetime.fromtimestamp(answer["at_s"]).astimezone().isoformat(" ", "seconds")
    states = ", ".join(f"{hosts[name]:,} {name}" for name in ("up", "down", "disabled"))
    text = Text(f"{at}  ", style="bold")
    text.append(f"{hosts['total']:,} hosts: {states}", style="red" if hosts["down"] else "")
    text.append(f"{_GAP}{answer['instances']:,} servers, {answer['tasks']:,} being built or moved")
    waiting = f"{_GAP}queue: {queue['requests']:,} requests for {queue['instances']:,} servers"
    text.append(waiting, style="yellow" if queue["requests"] else "")
    if queue["oldest_s"] is not None:
        text.append(f", the oldest waits for {queue['oldest_s']:.1f} s", style="yellow")
    return text


def _rates(answer: Json) -> Text:
    schedulers = rows(answer, "schedulers")
    parts = [
        f"{_rate(one[f'{name}_per_s'] for one in schedulers)} {text}"
        for name, text in (("placed", "placed"), ("refused", "refused"), ("lost", "claims lost"))
    ]
    text = Text("requests per second: " + ", ".join(parts))
    text.append(f"{_GAP}ledger version {answer['ledger_version']:,}")
    behind = f", this API is {answer['lag']:,} behind"
    text.append(behind, style="yellow" if answer["lag"] else "")
    return text


def _rate(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known):,.1f}" if known else "?"


def _schedulers(answer: Json) -> list[Text]:
    found = rows(answer, "schedulers")
    if not found:
        return [Text("no scheduler is alive", style="bold red")]
    lines: list[Text] = []
    for one in found[:_SCHEDULERS_MAX]:
        lag = one["lag"]
        text = Text(f"scheduler {one['id'][:_ID_LENGTH]} ({plain(one['part'])})")
        behind = "?" if lag is None else f"{lag:,}"
        text.append(f"{_GAP}{behind} behind", style="yellow" if lag else "")
        for name, noun in (("placed", "placed"), ("refused", "refused"), ("lost", "lost")):
            count = "?" if one[name] is None else f"{one[name]:,}"
            text.append(f"{_GAP}{noun} {count} ({_rate([one[f'{name}_per_s']])}/s)")
        text.append(f"{_GAP}report {one['age_s']:.0f} s old", style="dim")
        lines.append(text)
    if len(found) > _SCHEDULERS_MAX:
        lines.append(Text(f"and {len(found) - _SCHEDULERS_MAX} more schedulers", style="dim"))
    return lines


def _totals(resources: Mapping[str, Json], width: int, signs: _Signs) -> list[Text]:
    names = _ordered(resources)
    widest = max(map(cell_len, names), default=0)
    bar_width = max(min(_BAR_WIDTH, width - widest - 50), _BAR_MIN)
    lines: list[Text] = []
    for name in names:
        amounts = resources[name]
        text = Text(f"{plain(name):<{widest}}{_GAP}", style="bold")
        text.append_text(_bar(amounts, bar_width, signs))
        text.append(
            f"{_GAP}{_percent(amounts)}{_GAP}{amounts['used']:,} of {amounts['capacity']:,} used, "
            f"{amounts['reserved']:,} of {amounts['total']:,} reserved",
            style="not bold",
        )
        lines.append(text)
    return lines


def _bar(amounts: Json, width: int, signs: _Signs) -> Text:
    """Return a bar: used and free capacity, and at its end what hosts keep for themselves."""
    total, share = max(amounts["total"], 1), _share(amounts)
    reserved = min(round(width * amounts["reserved"] / total), width)
    # Any use is visible, and a bar is full only if nothing is free.
    room = width - reserved
    used = min(max(round(room * share), int(share > 0)), room - int(share < 1 and room > 1))
    colour = "red" if share >= _HIGH else "yellow" if share >= _MEDIUM else "green"
    text = Text(signs.used * used, style=colour)
    text.append(signs.free * (room - used), style="dim")
    text.append(signs.reserved * reserved, style="blue")
    return text


def _share(amounts: Json) -> float:
    if not amounts["capacity"]:
        return 1.0 if amounts["used"] else 0.0
    share: float = amounts["used"] / amounts["capacity"]
    return share


def _percent(amounts: Json) -> str:
    return f"{_share(amounts):.0%}".rjust(_PERCENT_WIDTH)


def _ordered(names: Iterable[str]) -> list[str]:
    """Return names of resource classes: those that every fleet has, then others by name."""
    known = set(names)
    first = [name for name in _CLASSES_FIRST if name in known]
    return [*first, *sorted(known.difference(first))]


def _hosts(found: Sequence[Json], classes: Sequence[str], width: int, signs: _Signs) -> list[Text]:
    """Return the table of hosts, with as many resource classes as the terminal has room for."""
    heads = ("Host", "Zones", "State", "Servers", "Tasks")
    cells = [
        (
            plain(one["name"]),
            plain(", ".join(texts(one, "zones")) or None),
            plain(one["state"]),
            f"{one['instances']:,}",
            f"{one['tasks']:,}",
        )
        for one in found
    ]
    widths = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
    each = _HOST_BAR_WIDTH + _PERCENT_WIDTH + len(_GAP)
    room = width - sum(widths) - len(_GAP) * (len(widths) - 1)
    shown = classes[: max(room // each, 0)]
    head = Text(_row(heads, widths), style="bold")
    for name in shown:
        head.append(_GAP + plain(name)[: each - len(_GAP)].ljust(each - len(_GAP)))
    lines = [head]
    for one, row in zip(found, cells, strict=True):
        line = Text(_row(row, widths), style="" if one["state"] == "up" else "red")
        for name in shown:
            amounts = part(part(one, "resources"), name)
            line.append(_GAP)
            line.append_text(_host_bar(amounts, signs))
        lines.append(line)
    return lines


def _host_bar(amounts: Json, signs: _Signs) -> Text:
    if not amounts:
        return Text("-".ljust(_HOST_BAR_WIDTH + _PERCENT_WIDTH))
    return _bar(amounts, _HOST_BAR_WIDTH, signs).append(_percent(amounts), style="none")


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    # The first three columns are texts, the others numbers.
    padded = [
        cell + " " * (wide - cell_len(cell)) if at < 3 else cell.rjust(wide)  # noqa: PLR2004
        for at, (cell, wide) in enumerate(zip(cells, widths, strict=True))
    ]
    return _GAP.join(padded)
