"""Time one call of Nova's scheduler code per line of input, so two sides can take turns.

Run it with the Python of a virtualenv that holds `nova-requirements.lock`. `sort` calls
`_get_sorted_hosts` on the fleet of `nova_peer.py`, `numa` calls `NUMATopologyFilter.filter_all` on
that of `nova_pinned.py`. The first line out has the number of hosts that pass; then each line of
standard input is answered with the time of one call, in microseconds. The process ends with its
input. Progress goes to stderr; the exit codes are those of `nova_peer.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import sys
from typing import TYPE_CHECKING, TextIO

import nova_pinned
from nova_peer import (
    EXIT_MEASUREMENT_FAILED,
    EXIT_NOVA_MISSING,
    EXIT_OK,
    NovaMissingError,
    Sample,
    build_request,
    build_scheduler,
    build_states,
    check_order,
    load_nova,
    positive,
    say,
    timed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from nova_peer import HostState, Nova

    Call: TypeAlias = Callable[[], tuple[list[HostState], Sample]]
    """Returns the hosts that pass, and the time it took."""


def sorted_hosts(nova: Nova, count: int) -> Call:
    """Return a call of `_get_sorted_hosts` for one instance, over `count` hosts."""
    scheduler, spec = build_scheduler(nova), build_request(nova, 1)
    states, _ = build_states(nova, count)
    check_order(scheduler, spec, states)
    return lambda: timed(lambda: scheduler.sort(spec, states))


def numa_filter(nova: Nova, count: int) -> Call:
    """Return a call of `NUMATopologyFilter` for a pinned guest, over `count` hosts."""
    module = importlib.import_module("nova.scheduler.filters.numa_topology_filter")
    rule = module.NUMATopologyFilter()
    states, spec = nova_pinned.build_states(nova, count), nova_pinned.build_pinned_request(nova)

    def call() -> tuple[list[HostState], Sample]:
        for state in states:  # the filter removes candidates that do not fit
            state.allocation_candidates = [{"allocations": {}, "mappings": {"": [state.uuid]}}]
        return timed(lambda: list(rule.filter_all(states, spec)))

    return call


CALLS = {"sort": sorted_hosts, "numa": numa_filter}


def answer(call: Call, asked: Iterable[str], out: TextIO) -> None:
    """Call once untimed, write how many hosts pass, and write the time of a call for each line."""

    def tell(**said: float) -> None:
        out.write(json.dumps(said) + "\n")
        out.flush()

    passing, _ = call()
    tell(passing=len(passing))
    for _ in asked:
        _, sample = call()
        tell(cpu_us=sample.cpu_s * 1e6, wall_us=sample.wall_s * 1e6)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description="Time calls of Nova's scheduler code.")
    parser.add_argument("call", choices=CALLS, help="what to call")
    parser.add_argument("--hosts", type=positive, required=True, help="fleet size")
    given = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    out = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout carries the JSON and nothing else
            say(f"{given.call}: {given.hosts} hosts")
            answer(CALLS[given.call](load_nova(), given.hosts), sys.stdin, out)
    except NovaMissingError as error:
        say(str(error))
        return EXIT_NOVA_MISSING
    except Exception as error:  # any exception of Nova is logged and reported
        logging.getLogger("nova_turns").warning("the measurement failed", exc_info=error)
        say(f"measurement failed: {type(error).__name__}: {error}")
        return EXIT_MEASUREMENT_FAILED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
