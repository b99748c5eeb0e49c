"""Random passwords of new guests."""

from collections.abc import Callable
from typing import Final

# As in Nova, a password has characters of each group, none of which is easily confused with
# another, and the same length.
_GROUPS: Final = ("23456789", "ABCDEFGHJKLMNPQRSTUVWXYZ", "abcdefghijkmnopqrstuvwxyz")
_ALPHABET: Final = "".join(_GROUPS)
_LENGTH: Final = 12
# With this many bytes per character, the remainder favours none by more than 2**-26.
_BYTES: Final = 4


def new_password(random_bytes: Callable[[int], bytes]) -> str:
    """Return a random password of 12 letters and digits, with at least one of each group.

    Args:
        random_bytes: returns as many unpredictable bytes as requested.
    """
    while True:
        drawn = random_bytes(_LENGTH * _BYTES)
        numbers = (
            int.from_bytes(drawn[at : at + _BYTES], "big") for at in range(0, len(drawn), _BYTES)
        )
        password = "".join(_ALPHABET[number % len(_ALPHABET)] for number in numbers)
        # One password in five lacks a group and is drawn again.
        if all(set(group) & set(password) for group in _GROUPS):
            return password
