"""Well-formed requests that the Placement API refuses."""

from collections.abc import Mapping
from typing import Final

from tests.integration.placement_nouns import CHILD, GENERATION, PROVIDER
from tests.unit.api.placement.world import Json, claim, consumer

VCPU: Final = {"VCPU": {"total": 4}}
UNKNOWN: Final = "88888888-8888-4888-8888-888888888888"
NOBODY: Final = "99999999-9999-4999-8999-999999999999"


def shares(**held: Mapping[str, Mapping[str, int]]) -> Json:
    """Return the body of a claim by several consumers, given by uuid."""
    return {uuid: claim(amounts) for uuid, amounts in held.items()}


def reshape(inventories: Json, allocations: Json) -> Json:
    """Return the body of a reshape of the existing provider."""
    told = {"resource_provider_generation": GENERATION, "inventories": inventories}
    return {"inventories": {PROVIDER: told}, "allocations": allocations}


STALE: Final = GENERATION - 1
OWN: Final = f"/resource_providers/{PROVIDER}"
REFUSED: Final[Mapping[str, tuple[str, str, object, int]]] = {
    "a stale generation of inventories": (
        "PUT",
        f"{OWN}/inventories",
        {"resource_provider_generation": STALE, "inventories": VCPU},
        409,
    ),
    "of one inventory": (
        "PUT",
        f"{OWN}/inventories/VCPU",
        {"resource_provider_generation": STALE, "total": 4},
        409,
    ),
    "of traits": ("PUT", f"{OWN}/traits", {"resource_provider_generation": 99, "traits": []}, 409),
    "of aggregates": (
        "PUT",
        f"{OWN}/aggregates",
        {"resource_provider_generation": STALE, "aggregates": []},
        409,
    ),
    "of a consumer that is there": (
        "PUT",
        f"/allocations/{consumer(1)}",
        claim({PROVIDER: {"VCPU": 1}}),
        409,
    ),
    "of a consumer that is not": (
        "PUT",
        f"/allocations/{consumer(20)}",
        claim({PROVIDER: {"VCPU": 1}}, consumer_generation=3),
        409,
    ),
    "of one of two consumers": (
        "POST",
        "/allocations",
        shares(**{consumer(21): {PROVIDER: {"VCPU": 1}}, consumer(1): {PROVIDER: {"VCPU": 1}}}),
        409,
    ),
    "of a provider in a reshape": (
        "POST",
        "/reshaper",
        {
            "inventories": {PROVIDER: {"resource_provider_generation": STALE, "inventories": VCPU}},
            "allocations": {},
        },
        409,
    ),
    "a class in use that goes in a reshape": ("POST", "/reshaper", reshape({}, {}), 409),
    "a reshape that claims too much": (
        "POST",
        "/reshaper",
        reshape(
            {**VCPU, "DISK_GB": {"total": 1}}, shares(**{consumer(22): {PROVIDER: {"DISK_GB": 2}}})
        ),
        409,
    ),
    "a class in use that goes": (
        "PUT",
        f"{OWN}/inventories",
        {"resource_provider_generation": GENERATION, "inventories": {}},
        409,
    ),
    "an unknown class in inventories": (
        "PUT",
        f"{OWN}/inventories",
        {
            "resource_provider_generation": GENERATION,
            "inventories": {**VCPU, "CUSTOM_NO": {"total": 1}},
        },
        400,
    ),
    "an unknown class that is claimed": (
        "PUT",
        f"/allocations/{consumer(23)}",
        claim({PROVIDER: {"CUSTOM_NO": 1}}),
        400,
    ),
    "an unknown class of one of two consumers": (
        "POST",
        "/allocations",
        shares(
            **{consumer(24): {PROVIDER: {"VCPU": 1}}, consumer(3): {PROVIDER: {"CUSTOM_NO": 1}}}
        ),
        400,
    ),
    "an unknown provider that is claimed": (
        "PUT",
        f"/allocations/{consumer(25)}",
        claim({NOBODY: {"VCPU": 1}}),
        400,
    ),
    "an unknown trait": (
        "PUT",
        f"{OWN}/traits",
        {"resource_provider_generation": GENERATION, "traits": ["CUSTOM_NO"]},
        400,
    ),
    "too much": ("PUT", f"/allocations/{consumer(26)}", claim({PROVIDER: {"VCPU": 7}}), 409),
    "more than there are numbers": (
        "PUT",
        f"/allocations/{consumer(27)}",
        claim({PROVIDER: {"VCPU": 2**63}}),
        400,
    ),
    "a name that is taken": ("POST", "/resource_providers", {"name": "provider-1"}, 409),
    "a uuid that is taken": ("POST", "/resource_providers", {"name": "x", "uuid": PROVIDER}, 409),
    "an unknown parent": (
        "POST",
        "/resource_providers",
        {"name": "x", "uuid": UNKNOWN, "parent_provider_uuid": NOBODY},
        400,
    ),
    "a loop": (
        "PUT",
        OWN,
        {"name": "x", "parent_provider_uuid": CHILD},
        400,
    ),
    "a provider in use": ("DELETE", OWN, None, 409),
    "a class in use": ("DELETE", "/resource_classes/CUSTOM_FAST", None, 409),
    "a trait in use": ("DELETE", "/traits/CUSTOM_FAST", None, 409),
    "a class with a line feed": ("POST", "/resource_classes", {"name": "CUSTOM_A\n"}, 400),
    "an inventory of such a class": (
        "POST",
        f"{OWN}/inventories",
        {"resource_class": "CUSTOM_FAST\n", "total": 1},
        400,
    ),
    "a consumer with one": (
        "POST",
        "/allocations",
        shares(**{f"{consumer(28)}\n": {PROVIDER: {"VCPU": 1}}}),
        400,
    ),
    "a type with one": (
        "PUT",
        f"/allocations/{consumer(29)}",
        claim({PROVIDER: {"VCPU": 1}}, consumer_type="INSTANCE\n"),
        400,
    ),
    "a standard class": ("DELETE", "/resource_classes/VCPU", None, 400),
    "a standard trait": ("DELETE", "/traits/HW_CPU_X86_VMX", None, 400),
}
"""Requests to a service after `placement_nouns.furnish`, each with the status of its refusal."""
