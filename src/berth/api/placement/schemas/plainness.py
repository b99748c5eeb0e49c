"""Hand-written checks of the most frequent bodies and queries.

Each accepts only values that its schema accepts, and may reject more; rejected values go to the
schema, which decides and reports. A check takes a tenth of the schema's time.
"""

import re
from typing import Any, Final, TypeGuard

from berth.api.placement.schemas.building import INT_MAX, RATIO_MAX

# The usual form of a uuid; the schemas also accept other forms.
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_NAME = re.compile(r"[A-Z0-9_]{1,255}").fullmatch
_SUFFIX = re.compile(r"[a-zA-Z0-9_-]{0,64}").fullmatch
_LIMIT = re.compile(r"[1-9][0-9]{0,17}").fullmatch
_INT64_MAX: Final = 2**63 - 1
_TEXT_MAX: Final = 255
_POLICIES: Final = frozenset({"none", "isolate"})
_LEAST: Final = {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1}
_INVENTORY_KEYS: Final = frozenset({"resource_provider_generation", "inventories"})
_RESHAPE_KEYS: Final = frozenset({"inventories", "allocations"})


class PlainClaim:
    """Fast check of a body with the allocations of one consumer.

    Args:
        size_min: minimum number of providers.
        has_generation: whether the body must have the consumer's generation.
        has_mappings: whether the body may have the mappings of the request groups.
        has_type: whether the body must have the consumer's type.
    """

    def __init__(
        self,
        *,
        size_min: int = 0,
        has_generation: bool = False,
        has_mappings: bool = False,
        has_type: bool = False,
    ) -> None:
        self._size_min = size_min
        self._has_mappings = has_mappings
        self._keys = {"allocations", "project_id", "user_id"}
        self._keys |= {"consumer_generation"} if has_generation else set()
        self._keys |= {"consumer_type"} if has_type else set()

    def __call__(self, data: object) -> bool:
        """Return whether a body is certainly valid."""
        if not _is_object(data):
            return False
        extra = data.keys() - self._keys
        if len(data) - len(extra) != len(self._keys):
            return False
        if extra and not (self._has_mappings and extra == {"mappings"}):
            return False
        return (
            _is_allocations(data["allocations"], self._size_min)
            and _is_text(data["project_id"])
            and _is_text(data["user_id"])
            and _is_seen(data.get("consumer_generation"))
            and ("consumer_type" not in data or _is_name(data["consumer_type"]))
            and ("mappings" not in data or _is_mappings(data["mappings"]))
        )


class PlainClaims:
    """Fast check of a body with the allocations of several consumers.

    Args:
        one: check of each consumer's allocations.
        size_min: minimum number of consumers.
    """

    def __init__(self, one: PlainClaim, size_min: int) -> None:
        self._one = one
        self._size_min = size_min

    def __call__(self, data: object) -> bool:
        """Return whether a body is certainly valid."""
        if not _is_object(data) or len(data) < self._size_min:
            return False
        return all(_is_uuid(uuid) and self._one(claim) for uuid, claim in data.items())


class PlainReshape:
    """Fast check of the body of a reshape.

    Args:
        claims: check of the allocations.
    """

    def __init__(self, claims: PlainClaims) -> None:
        self._claims = claims

    def __call__(self, data: object) -> bool:
        """Return whether a body is certainly valid."""
        if not _is_object(data) or data.keys() != _RESHAPE_KEYS:
            return False
        inventories = data["inventories"]
        return (
            _is_object(inventories)
            and bool(inventories)
            and all(_is_uuid(uuid) and is_plain_inventories(it) for uuid, it in inventories.items())
            and self._claims(data["allocations"])
        )


class PlainCandidateQuery:
    """Fast check of a query for allocation candidates.

    Args:
        names: names of the request-wide parameters.
        keys: names of the parameters of a group, without the suffix.
        suffix: regular expression for the suffix of a group.
    """

    def __init__(self, names: frozenset[str], keys: tuple[str, ...], suffix: str) -> None:
        self._names = names
        self._is_key = re.compile(f"(?:{'|'.join(keys)})(?:{suffix})?").fullmatch

    def __call__(self, values: object) -> bool:
        """Return whether a query, given as the last value of each parameter, is certainly valid."""
        if not _is_object(values):
            return False
        return all(
            isinstance(value, str) and (self._is_right(name, value) or bool(self._is_key(name)))
            for name, value in values.items()
        )

    def _is_right(self, name: str, value: str) -> bool:
        if name not in self._names:
            return False
        if name == "limit":
            return bool(_LIMIT(value))
        return name != "group_policy" or value in _POLICIES


def is_plain_inventories(data: object) -> bool:
    """Return whether a body with all inventories of a provider is certainly valid."""
    if not _is_object(data) or data.keys() != _INVENTORY_KEYS:
        return False
    inventories = data["inventories"]
    return (
        _is_int(data["resource_provider_generation"], 0, _INT64_MAX)
        and _is_object(inventories)
        and all(_is_name(name) and _is_inventory(one) for name, one in inventories.items())
    )


# The checks compare exact types: bool is a subclass of int, and the schemas reject it.


def _is_object(data: object) -> TypeGuard[dict[str, Any]]:
    return type(data) is dict


def _is_int(value: object, least: int, most: int) -> TypeGuard[int]:
    return type(value) is int and least <= value <= most


def _is_text(value: object) -> bool:
    # Printable strings contain neither U+0000 nor lone surrogates, which cannot be stored.
    return type(value) is str and 0 < len(value) <= _TEXT_MAX and value.isprintable()


def _is_name(value: object) -> bool:
    return type(value) is str and _NAME(value) is not None


def _is_seen(value: object) -> bool:
    return value is None or _is_int(value, 0, _INT64_MAX)


def _is_uuid(value: object) -> bool:
    return type(value) is str and _UUID(value) is not None


def _is_inventory(one: object) -> bool:
    if not _is_object(one) or "total" not in one:
        return False
    for key, value in one.items():
        if key == "allocation_ratio":
            # Ints go to the slow path, which converts them to floats.
            if type(value) is not float or not -RATIO_MAX <= value <= RATIO_MAX:
                return False
        elif key not in _LEAST or not _is_int(value, _LEAST[key], INT_MAX):
            return False
    return True


def _is_allocations(data: object, size_min: int) -> bool:
    if not _is_object(data) or len(data) < size_min:
        return False
    return all(_is_uuid(uuid) and _is_held(held) for uuid, held in data.items())


def _is_held(held: object) -> bool:
    if not _is_object(held) or "resources" not in held:
        return False
    if len(held) > 1 and not (
        held.keys() == {"resources", "generation"} and _is_int(held["generation"], 0, _INT64_MAX)
    ):
        return False
    resources = held["resources"]
    return (
        _is_object(resources)
        and bool(resources)
        and all(
            _is_name(name) and _is_int(amount, 1, _INT64_MAX) for name, amount in resources.items()
        )
    )


def _is_mappings(data: object) -> bool:
    if not _is_object(data) or not data:
        return False
    return all(
        _SUFFIX(suffix) is not None
        and type(uuids) is list
        and bool(uuids)
        and all(_is_uuid(uuid) for uuid in uuids)
        for suffix, uuids in data.items()
    )
