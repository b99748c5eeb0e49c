"""Which actions a path is for."""

from collections.abc import Iterable, Mapping

from berth.api.placement.actions import Action

Methods = Mapping[str, tuple[Action, ...]]
"""The actions of one path by method, in order of their versions."""

_KEY_MAX = 1024
"""Longer than any name, so that handlers can say what is wrong with one."""


class Matcher:
    """Finds the actions of a path, without trying one path after the other.

    Args:
        actions: all of them. Of paths with equally many parts, all have their parameters at the
            same places.

    Raises:
        ValueError: they do not.
    """

    def __init__(self, actions: Iterable[Action]) -> None:
        self._keys_at: dict[int, tuple[int, ...]] = {}
        self._found: dict[tuple[str, ...], tuple[tuple[str, ...], dict[str, tuple[Action, ...]]]]
        self._found = {}
        for action in actions:
            parts = action.path.split("/")
            places = tuple(place for place, part in enumerate(parts) if part.startswith("{"))
            if self._keys_at.setdefault(len(parts), places) != places:
                raise ValueError(f"{action.path} has its parameters elsewhere than other paths")
            names = tuple(parts[place].strip("{}") for place in places)
            _, methods = self._found.setdefault(_fixed(parts, places), (names, {}))
            methods[action.method] = (*methods.get(action.method, ()), action)

    def find(self, path: str) -> tuple[Methods, dict[str, str]] | None:
        """Return the actions of a path by method, and its parameters; None when there are none."""
        parts = path.split("/")
        places = self._keys_at.get(len(parts))
        found = None if places is None else self._found.get(_fixed(parts, places))
        if places is None or found is None:
            return None
        names, methods = found
        keys = [parts[place] for place in places]
        if not all(0 < len(key) <= _KEY_MAX and key.isprintable() for key in keys):
            return None
        return methods, dict(zip(names, keys, strict=True))


def _fixed(parts: list[str], places: tuple[int, ...]) -> tuple[str, ...]:
    return tuple("" if place in places else part for place, part in enumerate(parts))
