"""Values of hardware extra specs, each looked at alone."""

import pytest

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.hw_specs import check_values


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hw:cpu_policy", "bogus"),
        ("hw:cpu_thread_policy", "none"),
        ("hw:pci_numa_affinity_policy", "near"),
        ("hw:numa_nodes", "0"),
        ("hw:mem_page_size", "huge"),
        ("hw:emulator_threads_policy", "float"),
    ],
)
def test_what_cannot_be_read_is_refused(key: str, value: str) -> None:
    """By its key."""
    with pytest.raises(InvalidInputError, match=key):
        check_values({"colour": "red", key: value})


def test_what_needs_another_is_not() -> None:
    """They may be set one after the other."""
    check_values({"hw:cpu_policy": "mixed", "hw:mem_page_size": "2MB", "hw:numa_nodes": "2"})
    check_values({"hw:cpu_thread_policy": "isolate", "hw:emulator_threads_policy": "share"})
