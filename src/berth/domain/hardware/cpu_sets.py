"""CPU sets: numbers of CPUs, as operators write them (`0-3,^2,8`)."""

from collections.abc import Iterable

from berth.domain.errors import InvalidInputError

CPU_MAX = 4095
"""Highest number that a CPU of a host or of a guest may have."""

_CHARS_MAX = 4096


def parse_cpus(text: str, field: str) -> frozenset[int]:
    """Read numbers, ranges and, with `^`, numbers and ranges to leave out, in any order.

    Args:
        text: as in `0-3,^2,8`; empty parts are skipped.
        field: what to call the text in errors.

    Raises:
        InvalidInputError: a part that cannot be read, or a CPU above `CPU_MAX`.
    """
    if len(text) > _CHARS_MAX:
        raise InvalidInputError(field, f"is longer than {_CHARS_MAX} characters")
    named: set[int] = set()
    left_out: set[int] = set()
    for part in (piece.strip() for piece in text.split(",")):
        if part:
            (left_out if part.startswith("^") else named).update(_range(part, field))
    return frozenset(named - left_out)


def check_cpus(cpus: Iterable[int], field: str) -> None:
    """Refuse numbers that no CPU may have.

    Raises:
        InvalidInputError: naming the number.
    """
    for cpu in cpus:
        if not 0 <= cpu <= CPU_MAX:
            raise InvalidInputError(field, f"CPU {cpu} must be 0 to {CPU_MAX}")


def bits_of(cpus: Iterable[int]) -> int:
    """Return CPUs as one number with a bit set for each."""
    bits = 0
    for cpu in cpus:
        bits |= 1 << cpu
    return bits


def cpus_of(bits: int) -> list[int]:
    """Return the CPUs of such a number, ascending."""
    found: list[int] = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


def _range(part: str, field: str) -> range:
    first, dash, last = part.removeprefix("^").partition("-")
    start = _number(first, part, field)
    stop = _number(last, part, field) if dash else start
    if start > stop:
        raise InvalidInputError(field, f"{part[:80]!r} must not go backwards")
    return range(start, stop + 1)


def _number(text: str, part: str, field: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(CPU_MAX))):
        reason = f"{part[:80]!r} must be a CPU or a range such as 0-3, with ^ before what to leave"
        raise InvalidInputError(field, f"{reason} out, and no CPU above {CPU_MAX}")
    number = int(digits)
    check_cpus((number,), field)
    return number
