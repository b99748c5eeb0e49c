"""Measure in a process of one's own, so that no part finds what another has left behind."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

from berth.adapters.system import keep_freed_memory

P = ParamSpec("P")
T = TypeVar("T")


def alone(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call in a fresh interpreter, and give all of its memory back to the system afterwards.

    Arguments and result go through pickle, so they are names, numbers and records.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=keep_freed_memory) as pool:
        return pool.submit(call, *args, **kwargs).result()
