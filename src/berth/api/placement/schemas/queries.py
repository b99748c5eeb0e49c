"""Schemas of query parameters."""

from berth.api.placement.schemas.building import NAME, UUID, Json, obj, text
from berth.api.placement.schemas.plainness import PlainCandidateQuery
from berth.api.placement.shapes import Shape, Steps

_TEXT = text()


def _steps(*steps: tuple[int, Json, tuple[str, ...]]) -> Steps:
    return tuple((since, Shape(obj(one, names), is_query=True)) for since, one, names in steps)


# The number in each name is the microversion that introduced the new parameter.
_PROVIDERS_0: Json = {"name": _TEXT, "uuid": UUID}
_PROVIDERS_3: Json = {**_PROVIDERS_0, "member_of": _TEXT}
_PROVIDERS_4: Json = {**_PROVIDERS_3, "resources": _TEXT}
_PROVIDERS_14: Json = {**_PROVIDERS_4, "in_tree": UUID}
_PROVIDERS_18: Json = {**_PROVIDERS_14, "required": _TEXT}

LIST_PROVIDERS = _steps(
    (0, _PROVIDERS_0, ()),
    (3, _PROVIDERS_3, ()),
    (4, _PROVIDERS_4, ()),
    (14, _PROVIDERS_14, ()),
    (18, _PROVIDERS_18, ()),
)

LIST_TRAITS = _steps((6, {"name": _TEXT, "associated": _TEXT}, ()))

_USAGES_9: Json = {"project_id": text(255, 1), "user_id": text(255, 1)}
# As in Placement's pattern, there is no `$` after `all`.
_USAGES_38: Json = {**_USAGES_9, "consumer_type": text(255, 1, f"{NAME}|^all|^unknown$")}

SHOW_USAGES = _steps((9, _USAGES_9, ("project_id",)), (38, _USAGES_38, ("project_id",)))

# Query values are always strings; the integer part is kept because error texts quote the schema.
_LIMIT: Json = {
    "limit": {
        "type": ["integer", "string"],
        "pattern": "^[1-9][0-9]*$",
        "minimum": 1,
        "minLength": 1,
    }
}
_POLICY: Json = {**_LIMIT, "group_policy": {"type": "string", "enum": ["none", "isolate"]}}
_ROOT: Json = {**_POLICY, "root_required": _TEXT}
_SUBTREE: Json = {**_ROOT, "same_subtree": _TEXT}
_NUMBERED = "[1-9][0-9]*"
_SUFFIXED = "[a-zA-Z0-9_-]{1,64}"
_GROUPED = ("resources", "required", "member_of")
_IN_TREE = (*_GROUPED, "in_tree")


def _single(since: int, *names: str) -> tuple[int, Shape]:
    """Return the first minor version with a query schema for a single group, and the schema."""
    properties: Json = {"resources": _TEXT} | (_LIMIT if "limit" in names else {})
    properties |= {name: _TEXT for name in names if name != "limit"}
    return since, Shape(obj(properties, ("resources",)), is_query=True)


def _granular(
    since: int, properties: Json, keys: tuple[str, ...], suffix: str
) -> tuple[int, Shape]:
    """Return the first minor version with a query schema for suffixed groups, and the schema."""
    patterns = {f"^{key}({suffix})?$": _TEXT for key in keys}
    plain = PlainCandidateQuery(frozenset(properties), keys, suffix)
    return since, Shape(obj(properties, patterns=patterns), is_query=True, is_plain=plain)


LIST_CANDIDATES: Steps = (
    _single(10),
    _single(16, "limit"),
    _single(17, "limit", "required"),
    _single(21, "limit", "required", "member_of"),
    _granular(25, _POLICY, _GROUPED, _NUMBERED),
    _granular(31, _POLICY, _IN_TREE, _NUMBERED),
    _granular(33, _POLICY, _IN_TREE, _SUFFIXED),
    _granular(35, _ROOT, _IN_TREE, _SUFFIXED),
    _granular(36, _SUBTREE, _IN_TREE, _SUFFIXED),
)
