"""Bipartite matching: each guest is assigned a place of its own among those that fit it.

Sets of places are integers with one bit per place.
"""

from collections.abc import Sequence


def is_matchable(masks: Sequence[int]) -> bool:
    """Return whether every guest can have a place of its own.

    Args:
        masks: the places that fit, for each guest.
    """
    owner: dict[int, int] = {}
    return all(_seat(guest, masks, owner, [0]) for guest in range(len(masks)))


def covers(masks: Sequence[int], places: int) -> bool:
    """Return whether all guests can be placed so that none of `places` stays empty."""
    # A matching that covers all guests and one that covers all places imply one that covers both
    # (Mendelsohn and Dulmage).
    if not is_matchable(masks):
        return False
    wanted = [place for place in range(places.bit_length()) if places >> place & 1]
    return is_matchable(
        [
            sum(1 << guest for guest, mask in enumerate(masks) if mask >> place & 1)
            for place in wanted
        ]
    )


def _seat(guest: int, masks: Sequence[int], owner: dict[int, int], seen: list[int]) -> bool:
    """Assign a guest a place, moving others if necessary; return whether that succeeded.

    `seen[0]` is the set of places that were tried for this guest.
    """
    left = masks[guest] & ~seen[0]
    while left:
        lowest = left & -left
        seen[0] |= lowest
        place = lowest.bit_length() - 1
        if place not in owner or _seat(owner[place], masks, owner, seen):
            owner[place] = guest
            return True
        left = masks[guest] & ~seen[0]
    return False
