"""How the interpreter and the C library of this process treat memory."""

import ctypes
import gc

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
"""Parameters of glibc's `mallopt`."""


def keep_freed_memory() -> None:
    """Have glibc keep what decisions free instead of giving it back to the system.

    Arrays of a few hundred kilobytes come and go with every decision over a large fleet; without
    this each of them is mapped anew, and faulting its pages in costs more than computing it.
    Other C libraries are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_TRIM_THRESHOLD, 256 * 1024 * 1024)
    mallopt(_M_MMAP_THRESHOLD, 32 * 1024 * 1024)


def spare_the_collector() -> None:
    """Leave what has been loaded out of garbage collections, and have fewer full ones.

    The table and its records stay as long as the process; walking through them stops it for
    hundreds of milliseconds at a time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
