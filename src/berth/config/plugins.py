"""Builds rules and drivers by name from entry points, with checked options.

A plugin is an entry point in one of four groups and refers to a function `build(**options)`. The
signature of `build` is the schema of the options: each parameter is keyword-only, annotated, and
has a default unless the option is required.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TypeGuard, TypeVar, cast

import msgspec

from berth.config.spelling import nearest
from berth.domain.errors import PolicyError

FILTERS = "berth.filters"
WEIGHERS = "berth.weighers"
DRIVERS = "berth.drivers"
COSTS = "berth.costs"

_NOUNS: Mapping[str, str] = {
    FILTERS: "filter",
    WEIGHERS: "weigher",
    DRIVERS: "driver",
    COSTS: "cost function",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PluginOption:
    """One option of a plugin: its type, and its default unless the option is required."""

    name: str
    annotation: object
    required: bool
    default: object = None


@cache
def _found(group: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a group by name; cached for the life of the process."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=group):
        # The same value twice is one package on two paths of `sys.path`, which is not a conflict.
        found.setdefault(entry.name, {})[entry.value] = entry
    return {name: tuple(by_value.values()) for name, by_value in found.items()}


def plugin_names(group: str) -> tuple[str, ...]:
    """Return the names of the installed plugins of a group, sorted."""
    return tuple(sorted(_found(group)))


def build_plugin(
    group: str,
    name: str,
    options: Mapping[str, object],
    is_made: Callable[[object], TypeGuard[T]],
    *,
    where: str,
    shared: Mapping[str, object] = MappingProxyType({}),
) -> T:
    """Build a rule or driver from its options, and return it.

    Args:
        group: the entry point group.
        name: the entry point's name, as in the policy file.
        options: the plugin's options from the file.
        is_made: checks that `build` has returned the expected kind of object.
        where: the place in the file, for error messages.
        shared: options that the file sets for all plugins that have them.

    Raises:
        PolicyError: the name is unknown or installed twice, an option is invalid, or the plugin
            fails.
    """
    build = _load(group, name, where)
    known = options_of(build, name, where)
    common = {option: value for option, value in shared.items() if option in known}
    checked = _check_options(common | dict(options), known, where)
    try:
        built = build(**checked)
    except Exception as error:  # a plugin may raise anything, and must not end the process
        raise PolicyError(where, f"{name} cannot be built ({_describe(error)})") from error
    if not is_made(built):
        raise PolicyError(
            where,
            f"build() of {name} returned a {type(built).__name__}, not a {_NOUNS[group]}; "
            "this is a fault of the plugin",
        )
    # Decisions and metrics show the rule's own name, but operators write the entry point's name.
    given = getattr(built, "name", None)
    if given != name:
        raise PolicyError(
            where,
            f"the {_NOUNS[group]} has the name {given!r} but is installed as {name!r}; "
            "the two must be equal; this is a fault of the plugin",
        )
    return built


def options_of(build: Callable[..., object], name: str, where: str) -> dict[str, PluginOption]:
    """Return the options of a plugin by name, from the signature of its `build`.

    Raises:
        PolicyError: the signature cannot be read, or a parameter is not keyword-only or has no
            annotation.
    """
    try:
        signature = inspect.signature(build, eval_str=True)
    except Exception as error:  # annotations are evaluated, so any error is possible
        raise PolicyError(
            where,
            f"build() of {name} has no readable signature ({error}); this is a fault of the plugin",
        ) from error
    options: dict[str, PluginOption] = {}
    for parameter in signature.parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.annotation is parameter.empty:
            raise PolicyError(
                where,
                f"parameter {parameter.name!r} of build() of {name} must be keyword-only and "
                "annotated; this is a fault of the plugin",
            )
        required = parameter.default is parameter.empty
        options[parameter.name] = PluginOption(
            name=parameter.name,
            annotation=parameter.annotation,
            required=required,
            default=None if required else parameter.default,
        )
    return options


def _load(group: str, name: str, where: str) -> Callable[..., object]:
    entries = _found(group).get(name, ())
    if len(entries) > 1:
        values = " and ".join(sorted(entry.value for entry in entries))
        raise PolicyError(where, f"{name} is installed more than once, as {values}; keep one")
    for entry in entries:
        return _import(entry, name, where)
    reason = f"there is no {_NOUNS[group]} {name!r}; {nearest(name, _found(group))}"
    raise PolicyError(where, reason)


def _import(entry: EntryPoint, name: str, where: str) -> Callable[..., object]:
    try:
        build = cast("object", entry.load())
    except Exception as error:  # importing a plugin runs its code
        raise PolicyError(where, f"{name} cannot be imported ({_describe(error)})") from error
    if not callable(build):
        raise PolicyError(
            where, f"{entry.value} of {name} is not a function; this is a fault of the plugin"
        )
    return build


def _check_options(
    options: Mapping[str, object], known: Mapping[str, PluginOption], where: str
) -> dict[str, object]:
    for option in known.values():
        if option.required and option.name not in options:
            raise PolicyError(f"{where}.{option.name}", "is required; add it")
    checked: dict[str, object] = {}
    for name, value in options.items():
        if name not in known:
            hint = nearest(name, known) if known else "the plugin takes no options; remove it"
            raise PolicyError(f"{where}.{name}", f"is an unknown option; {hint}")
        checked[name] = convert(value, known[name].annotation, where=f"{where}.{name}")
    return checked


def convert(value: object, annotation: object, *, where: str) -> object:
    """Return a value of a TOML document as the annotated type; floats may be given as integers.

    Raises:
        PolicyError: the value has another type or is not finite, or the type is not supported.
    """
    check_finite(value, where)
    try:
        return msgspec.convert(value, cast("type[object]", annotation))
    except (msgspec.ValidationError, OverflowError) as error:
        raise PolicyError(where, f"{error}; the value is {f'{value!r}'[:80]}") from error
    except TypeError as error:
        raise PolicyError(
            where, f"type {annotation} cannot be read from a file; this is a fault of the plugin"
        ) from error


def check_finite(value: object, where: str) -> None:
    """Reject infinities and NaN at any depth of a value.

    Raises:
        PolicyError: a number is not finite; the error names its place.
    """
    # TOML allows `inf` and `nan`. One NaN as a weight would make every comparison of hosts false.
    match value:
        case float() if not math.isfinite(value):
            raise PolicyError(where, f"{value} must be a finite number")
        case list():
            for index, item in enumerate(cast("list[object]", value)):
                check_finite(item, f"{where}[{index}]")
        case dict():
            for key, item in cast("dict[str, object]", value).items():
                check_finite(item, f"{where}.{key}")
        case _:
            pass


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
