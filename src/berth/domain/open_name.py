"""Open names: values of a fixed list that a newer Berth may have more of."""

from enum import StrEnum
from typing import Self


class OpenName(StrEnum):
    """An enumeration in records and messages that takes names which this Berth does not know.

    During an upgrade an older process reads what a newer one has written. It must go on, and must
    write back what it has read. So a name that is not in the list is kept as it is: it equals no
    member, is in no set of them, and whoever works by such names leaves what bears it alone.
    """

    __hash__ = str.__hash__  # that of `Enum` is a call in Python

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        name = str.__new__(cls, value)
        name._name_ = name._value_ = value
        return name
