"""State files: a complete fleet as JSON, in the form that `berth state export` writes."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from berth.cli.documents import convert_strictly, read_json
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import AMOUNT_MAX
from berth.domain.ledger.change import Snapshot

FORMAT = "berth-state/1"


def read_state(path: Path) -> Snapshot:
    """Read and validate a state file.

    Raises:
        InvalidInputError: the file is invalid; the error names the path of the problem.
    """
    state = convert_strictly(read_json(path), Snapshot, str(path))
    if state.format != FORMAT:
        raise InvalidInputError(
            f"{path}: format", f"{state.format[:80]!r} is unknown; this Berth reads {FORMAT!r}"
        )
    if not math.isfinite(state.now_s):
        raise InvalidInputError(f"{path}: now_s", f"{state.now_s} must be a finite number")
    # The tables are indexed by these keys. Of records with the same key, the last would silently
    # replace the others.
    for name, keys in _keys(state).items():
        for key, count in Counter(keys).items():
            if count > 1:
                raise InvalidInputError(
                    f"{path}: {name}", f"{key} occurs {count} times, but must be unique"
                )
    for index, provider in enumerate(state.providers):
        for name, used in provider.used.items():
            # Columns of the table are 64-bit integers, and sums of amounts must not overflow.
            if not 0 <= used <= AMOUNT_MAX:
                where = f"{path}: providers[{index}].used.{name}"
                raise InvalidInputError(where, f"must be between 0 and {AMOUNT_MAX}, not {used}")
    return state


def _keys(state: Snapshot) -> Mapping[str, Iterable[object]]:
    return {
        "hosts[].uuid": (host.uuid for host in state.hosts),
        "hosts[].(name, node)": ((host.name, host.node) for host in state.hosts),
        "providers[].uuid": (provider.uuid for provider in state.providers),
        "services[].host": (service.host for service in state.services),
        "aggregates[].aggregate_id": (one.aggregate_id for one in state.aggregates),
        "server_groups[].uuid": (group.uuid for group in state.server_groups),
        "flavors[].flavor_id": (flavor.flavor_id for flavor in state.flavors),
        "instances[].uuid": (instance.uuid for instance in state.instances),
        "migrations[].uuid": (migration.uuid for migration in state.migrations),
    }
