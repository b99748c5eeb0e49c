"""The few ids and names in sequences of requests, so that requests often collide."""

from typing import Final
from uuid import UUID

Many = tuple[str, ...]


def _uuids(first: int, count: int) -> Many:
    return tuple(str(UUID(int=first << 96 | number, version=4)) for number in range(count))


NEWEST: Final = 39

PROVIDERS: Final[Many] = _uuids(0xAAAAAAAA, 6)
NAMES: Final[Many] = ("one", "two", "three", "four", "five", "six", "sie%ben & 8")
AGGREGATES: Final[Many] = _uuids(0xBBBBBBBB, 3)
CONSUMERS: Final[Many] = _uuids(0xCCCCCCCC, 5)
UNKNOWN: Final = _uuids(0xDDDDDDDD, 1)[0]
UUIDS: Final = frozenset((*PROVIDERS, *AGGREGATES, *CONSUMERS, UNKNOWN))

STANDARD_CLASSES: Final[Many] = ("VCPU", "MEMORY_MB")
CUSTOM_CLASSES: Final[Many] = ("CUSTOM_A", "CUSTOM_B")
CLASSES: Final[Many] = (*STANDARD_CLASSES, *CUSTOM_CLASSES)
STANDARD_TRAITS: Final[Many] = ("HW_CPU_X86_VMX", "MISC_SHARES_VIA_AGGREGATE")
CUSTOM_TRAITS: Final[Many] = ("CUSTOM_T", "CUSTOM_U", "CUSTOM_V")
TRAITS: Final[Many] = (*STANDARD_TRAITS, *CUSTOM_TRAITS)
BAD_NAMES: Final[Many] = (
    "custom_a",
    "CUSTOM_",
    "CUSTOM_%C3%89",
    "CUSTOM_a",
    "X" * 256,
    "A" * 255,
    "vcpu",
)
"""Invalid or unusual names of classes and traits, quoted for a path."""

PROJECTS: Final[Many] = ("project", "other project")
USERS: Final[Many] = ("user", "other user")
TYPES: Final[Many] = ("INSTANCE", "MIGRATION", "OTHER_1")
