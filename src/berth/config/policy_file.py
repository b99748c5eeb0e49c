"""Reads policy files: TOML that lists the rules in order (docs/reference/policy-file.md)."""

import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeGuard, TypeVar, cast

from msgspec import Meta

from berth.config.plugins import (
    COSTS,
    DRIVERS,
    FILTERS,
    WEIGHERS,
    build_plugin,
    check_finite,
    convert,
)
from berth.config.ready_policies import DEFAULT, READY, is_ready, ready_text
from berth.config.spelling import nearest
from berth.domain.errors import PolicyError
from berth.scheduling.drivers.least_cost import LeastCostScheduler
from berth.scheduling.drivers.multi import MultiScheduler
from berth.scheduling.engine.keys import unknown_reads
from berth.scheduling.evaluation.cost import Cost
from berth.scheduling.evaluation.policy import CONTENDED_SUBSET_SIZE, Driver, Policy
from berth.scheduling.rules.rule import Filter, Normalisation, Weigher
from berth.scheduling.weighers.host_lot import NAME as HOST_LOT_WEIGHER

FILE_BYTES_MAX = 1024 * 1024
"""Size of the largest policy file that is read, in bytes."""

_RESOURCES = "ResourcesFilter"
_HASH_CHARS = 16

R = TypeVar("R", Filter, Weigher, Cost)
Document = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Key:
    """One top-level key that is not a table: its type with its range, and its default."""

    annotation: object
    default: object = None
    required: bool = False


_KEYS: Mapping[str, _Key] = {
    "name": _Key(Annotated[str, Meta(min_length=1, max_length=255)], required=True),
    "driver": _Key(str, "filter"),
    "host_subset_size": _Key(Annotated[int, Meta(ge=1, le=1_000_000)], 1),
    "contended_subset_size": _Key(Annotated[int, Meta(ge=1, le=1_000_000)], CONTENDED_SUBSET_SIZE),
    "shuffle_best_same_weighed_hosts": _Key(bool, default=False),
    "runners_up": _Key(Annotated[int, Meta(ge=0, le=100)], 3),
    "alternates": _Key(Annotated[int, Meta(ge=0, le=20)], 2),
    "normalisation": _Key(Normalisation, Normalisation.NOVA),
}
_TABLES = ("filters", "weighers", "costs", "driver_options")
_SHARED: Mapping[str, object] = {"pci_aliases": tuple[Mapping[str, str], ...], "numa_packing": bool}
"""Top-level keys that set the option of the same name for every rule that has it."""


def load_policy(path: Path | None) -> Policy:
    """Return the policy in a file, or the ready policy with that name; None means the default.

    Raises:
        PolicyError: the file cannot be read or is invalid.
    """
    return parse_policy(read_policy_text(path), source_name(path))


def source_name(path: Path | None) -> str:
    """Return the path of a policy file, or the file name of a ready policy (`default.toml`)."""
    ready = _ready_name(path)
    return str(path) if ready is None else f"{ready}.toml"


def read_policy_text(path: Path | None) -> str:
    """Return the text of a policy file or of a ready policy.

    Raises:
        PolicyError: the file cannot be read, is too large, or is not UTF-8.
    """
    ready = _ready_name(path)
    if path is None or ready is not None:
        return ready_text(ready or DEFAULT)
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        reason = (
            f"cannot be read ({error.strerror}); check the path and its permissions, or use the"
            f" name of a ready policy: {', '.join(READY)}"
        )
        raise PolicyError(str(path), reason) from error
    if len(content) > FILE_BYTES_MAX:
        raise PolicyError(str(path), f"is larger than {FILE_BYTES_MAX:,} bytes, the maximum")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise PolicyError(
            str(path), f"is not UTF-8 text at byte {error.start}; convert it"
        ) from error


def _ready_name(path: Path | None) -> str | None:
    """Return the name of a ready policy, or None if the path is that of a file."""
    if path is None:
        return DEFAULT
    return str(path) if is_ready(path) else None


def parse_policy(text: str, source: str) -> Policy:
    """Return the policy that a TOML document describes.

    Args:
        text: the document.
        source: the name of the document for error messages, usually its path.

    Raises:
        PolicyError: the document is invalid; `where` is the source and the place in it
            (`default.toml: filters[2].name`).
    """
    document = _parse_toml(text, source)
    for key in document:
        if key not in _KEYS and key not in _TABLES and key not in _SHARED:
            known = (*_KEYS, *_TABLES, *_SHARED)
            raise PolicyError(f"{source}: {key}", f"is an unknown key; {nearest(key, known)}")
        check_finite(document[key], f"{source}: {key}")
    values = {name: _value(document, name, key, source) for name, key in _KEYS.items()}
    filters = _rules(document, "filters", FILTERS, _is_filter, source)
    _check_filters(filters, source)
    weighers = _rules(document, "weighers", WEIGHERS, _is_weigher, source)
    normalisation = cast("Normalisation", values["normalisation"])
    _check_weighers(weighers, normalisation, source)
    shuffles = cast("bool", values["shuffle_best_same_weighed_hosts"])
    if shuffles:
        # The weigher would give every host a different score, and leave no ties to shuffle.
        weighers = tuple(one for one in weighers if one.name != HOST_LOT_WEIGHER)
    driver = _driver(document, cast("str", values["driver"]), source)
    costs = _rules(document, "costs", COSTS, _is_cost, source)
    if _adds_up_costs(driver) != bool(costs):
        reason = (
            "the driver least_cost requires [[costs]], and [[costs]] require that driver; add the"
            " missing one, or remove both"
        )
        raise PolicyError(f"{source}: costs", reason)
    return Policy(
        name=cast("str", values["name"]),
        hash=policy_hash(document),
        driver=driver,
        costs=costs,
        filters=filters,
        weighers=weighers,
        normalisation=normalisation,
        host_subset_size=cast("int", values["host_subset_size"]),
        contended_subset_size=cast("int", values["contended_subset_size"]),
        shuffle_best_same_weighed_hosts=shuffles,
        runners_up=cast("int", values["runners_up"]),
        alternates=cast("int", values["alternates"]),
    )


def policy_hash(document: Document) -> str:
    """Return a digest of a parsed document, independent of key order, comments and layout."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:_HASH_CHARS]


def _parse_toml(text: str, source: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # `int` raises ValueError for huge numbers
        reason = str(error).replace("end of document", f"the end, line {text.count(chr(10)) + 1}")
        raise PolicyError(source, f"is not valid TOML: {reason}; correct it there") from error


def _value(document: Document, name: str, key: _Key, source: str) -> object:
    if name not in document:
        if key.required:
            reason = f'is required; add a line such as {name} = "default"'
            raise PolicyError(f"{source}: {name}", reason)
        return key.default
    return convert(document[name], key.annotation, where=f"{source}: {name}")


def _driver(document: Document, name: str, source: str) -> Driver:
    options = document.get("driver_options", {})
    where = f"{source}: driver_options" if options else f"{source}: driver"
    if not isinstance(options, dict):
        raise PolicyError(where, "must be a table; write [driver_options]")
    given = cast("dict[str, object]", options)
    driver = build_plugin(DRIVERS, name, given, _is_driver, where=where)
    if not isinstance(driver, MultiScheduler):
        return driver
    # A multi driver names other drivers. Only this module can build them, because plugins do not
    # read policy files.
    drivers: dict[str, Driver] = {}
    for wanted in sorted(driver.wanted):
        own = driver.options.get(wanted, {})
        place = f"{source}: driver_options.options.{wanted}" if own else where
        drivers[wanted] = build_plugin(DRIVERS, wanted, own, _is_driver, where=place)
    return driver.with_drivers(drivers)


def _adds_up_costs(driver: Driver) -> bool:
    """Return whether a driver, or one to which it delegates, is the least-cost scheduler."""
    if isinstance(driver, MultiScheduler):
        return any(_adds_up_costs(one) for one in driver.drivers.values())
    return isinstance(driver, LeastCostScheduler)


def _is_driver(built: object) -> TypeGuard[Driver]:
    return callable(getattr(built, "plan", None))


def _is_filter(built: object) -> TypeGuard[Filter]:
    return isinstance(built, Filter)


def _is_cost(built: object) -> TypeGuard[Cost]:
    return isinstance(built, Cost) and math.isfinite(built.weight)


def _is_weigher(built: object) -> TypeGuard[Weigher]:
    return isinstance(built, Weigher) and all(
        math.isfinite(number)
        for number in (built.multiplier, built.floor or 0.0, built.ceiling or 0.0)
    )


def _rules(
    document: Document,
    key: str,
    group: str,
    is_made: Callable[[object], TypeGuard[R]],
    source: str,
) -> tuple[R, ...]:
    tables = document.get(key, [])
    if not isinstance(tables, list):
        raise PolicyError(f"{source}: {key}", f"must be a list of tables; write [[{key}]]")
    shared = {
        name: convert(document[name], annotation, where=f"{source}: {name}")
        for name, annotation in _SHARED.items()
        if name in document
    }
    rules: list[R] = []
    names: set[str] = set()
    for index, table in enumerate(cast("list[object]", tables)):
        where = f"{source}: {key}[{index}]"
        name, options = _split(table, key, where)
        if name in names:
            raise PolicyError(f"{where}.name", f"{name} is listed twice; remove one of the two")
        names.add(name)
        rule = build_plugin(group, name, options, is_made, where=where, shared=shared)
        _check_reads(rule, where)
        rules.append(rule)
    return tuple(rules)


def _check_reads(rule: Filter | Weigher | Cost, where: str) -> None:
    unknown = () if isinstance(rule, Cost) else unknown_reads(rule)
    if unknown:
        reason = f"{rule.name} declares that it reads {unknown[0]!r}, which does not exist"
        raise PolicyError(f"{where}.name", f"{reason}; this is a fault of the plugin")


def _split(table: object, key: str, where: str) -> tuple[str, dict[str, object]]:
    """Return the name and the options in a rule's table."""
    if not isinstance(table, dict):
        raise PolicyError(where, f"must be a table; write [[{key}]], followed by name = ...")
    options = dict(cast("dict[str, object]", table))
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise PolicyError(f"{where}.name", "is required; set it to the name of a rule")
    return name, options


def _check_weighers(
    weighers: tuple[Weigher, ...], normalisation: Normalisation, source: str
) -> None:
    if normalisation is not Normalisation.SHARE:
        return
    for index, weigher in enumerate(weighers):
        if weigher.share is None:
            raise PolicyError(
                f"{source}: weighers[{index}].name",
                f"{weigher.name} cannot be measured as a share of a host; remove it, or "
                'write normalisation = "nova"',
            )


def _check_filters(filters: tuple[Filter, ...], source: str) -> None:
    where = f"{source}: filters"
    if not filters:
        raise PolicyError(where, f"is empty; add at least {_RESOURCES}")
    if all(rule.name != _RESOURCES for rule in filters):
        raise PolicyError(
            where,
            f"{_RESOURCES} is missing; add it, because the ledger rejects claims on the hosts that "
            "this filter would remove",
        )
