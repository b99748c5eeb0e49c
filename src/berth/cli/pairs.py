"""Pairs: options of the form KEY=VALUE."""

from collections.abc import Sequence

import click


def read_pairs(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, list[str]]:
    """Read KEY=VALUE options, for click's `callback`; a key may come more than once."""
    pairs: dict[str, list[str]] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{value!r} must be KEY=VALUE", context, parameter)
        pairs.setdefault(key, []).append(text)
    return pairs


def last_values(pairs: dict[str, list[str]]) -> dict[str, str]:
    """Keep the last value of each key."""
    return {key: values[-1] for key, values in pairs.items()}
