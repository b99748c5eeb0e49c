"""Values of extra specs `hw:...`, each looked at alone: what no request could be read with.

What contradicts another one, or an image, is found when a request has both.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from berth.domain.hardware.guest_topology import CpuPolicy, ThreadPolicy
from berth.domain.hardware.hw_specs import (
    EMULATOR,
    NODES_MAX,
    choice,
    emulator_policy,
    read_size,
    whole_number,
)
from berth.domain.hardware.pci import NumaPolicy

_READERS: Final[Mapping[str, Callable[[str, str], object]]] = {
    "hw:cpu_policy": partial(choice, CpuPolicy),
    "hw:cpu_thread_policy": partial(choice, ThreadPolicy),
    "hw:pci_numa_affinity_policy": partial(choice, NumaPolicy),
    "hw:numa_nodes": partial(whole_number, least=1, most=NODES_MAX),
    "hw:mem_page_size": read_size,
    EMULATOR: emulator_policy,
}


def check_values(extra_specs: Mapping[str, str]) -> None:
    """Refuse values that cannot be read, whatever else is asked for.

    Raises:
        InvalidInputError: naming the key.
    """
    for key, text in extra_specs.items():
        reader = _READERS.get(key)
        if reader is not None:
            reader(text, key)
