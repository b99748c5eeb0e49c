"""Measurements in separate processes, so no part is affected by what another left in memory."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

from berth.adapters.system import keep_freed_memory

P = ParamSpec("P")
T = TypeVar("T")


def alone(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a fresh interpreter and return its result.

    Arguments and result are pickled, so the function must be importable by name.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=keep_freed_memory) as pool:
        return pool.submit(call, *args, **kwargs).result()
