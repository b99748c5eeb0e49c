"""The default policy rules of the Placement API, which operators can override."""

from collections.abc import Mapping

from berth.api.placement.policy import AccessPolicy

_ADMIN_OR_SERVICE = "rule:admin_or_service_api"

BASE: Mapping[str, str] = {
    "admin_api": "role:admin",
    "service_api": "role:service",
    "admin_or_service_api": "role:admin or role:service",
    "project_reader_api": "role:reader and project_id:%(project_id)s",
    "admin_or_project_reader_or_service_api": (
        "role:admin or rule:project_reader_api or role:service"
    ),
}
"""The basic rules, to which the rules of the routes refer."""

# The rules that also admit administrators under the old defaults. Until `enforce_new_defaults` is
# set, Placement accepts a caller that passes either the new check or the deprecated one.
_ADMIN_ADDED = frozenset(BASE) - {"admin_api"}

_USUAL = (
    "resource_providers:list",
    "resource_providers:create",
    "resource_providers:show",
    "resource_providers:update",
    "resource_providers:delete",
    "resource_providers:inventories:list",
    "resource_providers:inventories:create",
    "resource_providers:inventories:show",
    "resource_providers:inventories:update",
    "resource_providers:inventories:delete",
    "resource_providers:usages",
    "resource_providers:aggregates:list",
    "resource_providers:aggregates:update",
    "resource_providers:allocations:list",
    "resource_providers:traits:list",
    "resource_providers:traits:update",
    "resource_providers:traits:delete",
    "traits:list",
    "traits:show",
    "traits:update",
    "traits:delete",
    "resource_classes:list",
    "resource_classes:create",
    "resource_classes:show",
    "resource_classes:update",
    "resource_classes:delete",
    "allocations:manage",
    "allocations:list",
    "allocations:update",
    "allocations:delete",
    "allocation_candidates:list",
)

ACTION_RULES: Mapping[str, str] = {
    **{f"placement:{name}": _ADMIN_OR_SERVICE for name in _USUAL},
    "placement:usages": "rule:admin_or_project_reader_or_service_api",
    "placement:reshaper:reshape": "rule:service_api",
}
"""The default check of each route's rule."""


def policy_of(overrides: Mapping[str, str], *, enforce_new_defaults: bool) -> AccessPolicy:
    """Return the effective policy.

    Args:
        overrides: the operator's rules by name; each replaces the default of that name.
        enforce_new_defaults: if False, administrators also pass the rules for services and for
            readers of a project, as in old releases of Placement. The operator's rules stay
            unchanged.

    Raises:
        InvalidInputError: see `AccessPolicy`.
    """
    defaults = {
        name: check
        if enforce_new_defaults or name not in _ADMIN_ADDED
        else f"{check} or role:admin"
        for name, check in BASE.items()
    }
    return AccessPolicy({**defaults, **ACTION_RULES, **overrides})
