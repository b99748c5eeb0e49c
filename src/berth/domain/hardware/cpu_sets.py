"""CPU sets: CPU ids in the notation of operators (`0-3,^2,8`) and as bit masks."""

from collections.abc import Iterable

from berth.domain.errors import InvalidInputError

CPU_MAX = 4095
"""Highest CPU id of a host or a guest."""

# Maximum length of a CPU set as a string. Clients send these strings, so the work of parsing one
# must be bounded.
_CHARS_MAX = 4096


def parse_cpus(text: str, field: str) -> frozenset[int]:
    """Return the CPU ids in a string of ids, ranges and exclusions (after `^`) in any order.

    Args:
        text: the string, such as `0-3,^2,8`; empty parts are ignored.
        field: the field that errors name.

    Raises:
        InvalidInputError: the text is too long, a part is invalid, or a CPU is above `CPU_MAX`.
    """
    if len(text) > _CHARS_MAX:
        raise InvalidInputError(
            field, f"has {len(text)} characters; at most {_CHARS_MAX} are allowed"
        )
    named: set[int] = set()
    left_out: set[int] = set()
    # Exclusions apply at the end, so `^2,0-3` means the same as `0-3,^2`.
    for part in (piece.strip() for piece in text.split(",")):
        if part:
            (left_out if part.startswith("^") else named).update(_range(part, field))
    return frozenset(named - left_out)


def check_cpus(cpus: Iterable[int], field: str) -> None:
    """Reject CPU ids that are out of range.

    Raises:
        InvalidInputError: an id is not between 0 and `CPU_MAX`; the error names it.
    """
    for cpu in cpus:
        if not 0 <= cpu <= CPU_MAX:
            raise InvalidInputError(field, f"CPU {cpu} must be between 0 and {CPU_MAX}")


def bits_of(cpus: Iterable[int]) -> int:
    """Return a bit mask with one bit set for each CPU."""
    bits = 0
    for cpu in cpus:
        bits |= 1 << cpu
    return bits


def cpus_of(bits: int) -> list[int]:
    """Return the CPUs of a bit mask, in ascending order."""
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
        raise InvalidInputError(field, f"{part[:80]!r} must be an ascending range such as 0-3")
    return range(start, stop + 1)


def _number(text: str, part: str, field: str) -> int:
    digits = text.strip()
    # `isdigit` alone accepts digits of other scripts. The length bounds the cost of `int`.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(CPU_MAX))):
        reason = f"{part[:80]!r} must be a CPU id up to {CPU_MAX} or a range such as 0-3"
        raise InvalidInputError(field, f"{reason}; put ^ in front of CPUs to exclude them")
    number = int(digits)
    check_cpus((number,), field)
    return number
