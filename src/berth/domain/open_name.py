"""Enumerations that accept names which a newer version of Berth has added."""

from enum import StrEnum
from typing import Self


class OpenName(StrEnum):
    """A string enumeration for records and messages that preserves unknown names.

    During a rolling upgrade an older process reads records written by a newer one. It must not
    fail, and it must write back the value that it read. An unknown name is therefore kept as a
    value that equals no member and is in no set of members; code that dispatches on members ignores
    it.
    """

    # `Enum.__hash__` is a Python function; these values are dictionary keys on hot paths.
    __hash__ = str.__hash__

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        # The value is not added to the class: a member per unknown name would let a remote process
        # grow the enumeration without bound.
        name = str.__new__(cls, value)
        name._name_ = name._value_ = value
        return name
