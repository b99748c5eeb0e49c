"""Options of the form KEY=VALUE."""

from collections.abc import Sequence

import click


def read_pairs(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, list[str]]:
    """Return the values of KEY=VALUE options by key, in order (a click `callback`).

    Raises:
        BadParameter: a value is not of this form.
    """
    pairs: dict[str, list[str]] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{value!r} must be KEY=VALUE", context, parameter)
        pairs.setdefault(key, []).append(text)
    return pairs


def last_values(pairs: dict[str, list[str]]) -> dict[str, str]:
    """Return the last value of each key."""
    return {key: values[-1] for key, values in pairs.items()}
