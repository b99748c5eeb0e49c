"""The table of all routes of the Placement API."""

from dataclasses import replace

from berth.api.placement.actions import PUBLIC, Handler, PlacementRoute
from berth.api.placement.finding import provider_of
from berth.api.placement.handlers.allocation_candidates import list_candidates
from berth.api.placement.handlers.allocations import (
    delete_allocations,
    list_provider_allocations,
    manage_allocations,
    reshape,
    show_allocations,
    show_usages,
    update_allocations,
)
from berth.api.placement.handlers.inventories import (
    create_inventory,
    delete_inventories,
    delete_inventory,
    list_inventories,
    show_inventory,
    update_inventories,
    update_inventory,
)
from berth.api.placement.handlers.resource_classes import (
    create_class,
    delete_class,
    ensure_class,
    list_classes,
    rename_class,
    show_class,
)
from berth.api.placement.handlers.resource_providers import (
    create_provider,
    delete_provider,
    list_aggregates,
    list_providers,
    show_provider,
    show_provider_usages,
    update_aggregates,
    update_provider,
)
from berth.api.placement.handlers.root import show_versions
from berth.api.placement.handlers.traits import (
    delete_provider_traits,
    delete_trait,
    list_provider_traits,
    list_traits,
    put_trait,
    show_trait,
    update_provider_traits,
)
from berth.api.placement.schemas.allocations import POST_ALLOCATIONS, POST_RESHAPER, PUT_ALLOCATIONS
from berth.api.placement.schemas.building import POST_CLASS, PUT_CLASS
from berth.api.placement.schemas.providers import (
    POST_INVENTORY,
    POST_PROVIDER,
    PUT_AGGREGATES,
    PUT_INVENTORIES,
    PUT_INVENTORY,
    PUT_PROVIDER,
    PUT_TRAITS,
)
from berth.api.placement.schemas.queries import (
    LIST_CANDIDATES,
    LIST_PROVIDERS,
    LIST_TRAITS,
    SHOW_USAGES,
)
from berth.api.placement.shapes import Steps

PREFIX = "/placement"
"""Mount path of the API in a process with several APIs."""

_PROVIDERS = "/resource_providers"
_PROVIDER = "/resource_providers/{uuid}"
_INVENTORIES = f"{_PROVIDER}/inventories"
_INVENTORY = f"{_INVENTORIES}/{{resource_class}}"
_AGGREGATES = f"{_PROVIDER}/aggregates"
_PROVIDER_TRAITS = f"{_PROVIDER}/traits"
_TRAIT = "/traits/{name}"
_CLASSES = "/resource_classes"
_CLASS = "/resource_classes/{name}"
_CONSUMER = "/allocations/{consumer_uuid}"


def _rule(name: str) -> str:
    return f"placement:{name}"


def _show(
    path: str, handler: Handler, rule: str, since: int = 0, *, asks: Steps | None = None
) -> PlacementRoute:
    """Return a route that reads an object or a list."""
    return PlacementRoute("GET", path, handler, _rule(rule), since, asks=asks, shows=True)


def _send(method: str, path: str, handler: Handler, rule: str, takes: Steps) -> PlacementRoute:
    """Return a route with a body, available from the version of its first body shape."""
    return PlacementRoute(method, path, handler, _rule(rule), takes[0][0], takes=takes)


def _of_provider(
    method: str, path: str, handler: Handler, rule: str, takes: Steps
) -> PlacementRoute:
    """Return a route with a body that reports an unknown provider before an invalid body."""
    return replace(_send(method, path, handler, rule, takes), subject=provider_of)


def _remove(path: str, handler: Handler, rule: str, since: int = 0) -> PlacementRoute:
    """Return a route that removes an object."""
    return PlacementRoute("DELETE", path, handler, _rule(rule), since)


_ROOT = tuple(PlacementRoute("GET", path, show_versions, PUBLIC) for path in ("", "/"))

_OF_PROVIDERS = (
    _show(_PROVIDERS, list_providers, "resource_providers:list", asks=LIST_PROVIDERS),
    _send("POST", _PROVIDERS, create_provider, "resource_providers:create", POST_PROVIDER),
    _show(_PROVIDER, show_provider, "resource_providers:show"),
    _of_provider("PUT", _PROVIDER, update_provider, "resource_providers:update", PUT_PROVIDER),
    _remove(_PROVIDER, delete_provider, "resource_providers:delete"),
    _show(f"{_PROVIDER}/usages", show_provider_usages, "resource_providers:usages"),
    _show(
        f"{_PROVIDER}/allocations", list_provider_allocations, "resource_providers:allocations:list"
    ),
)

_RULE = "resource_providers:inventories"

_OF_INVENTORIES = (
    _show(_INVENTORIES, list_inventories, f"{_RULE}:list"),
    _of_provider("POST", _INVENTORIES, create_inventory, f"{_RULE}:create", POST_INVENTORY),
    _of_provider("PUT", _INVENTORIES, update_inventories, f"{_RULE}:update", PUT_INVENTORIES),
    # Before 1.5 Placement answers 405 here; for other routes outside their versions it answers 404.
    replace(_remove(_INVENTORIES, delete_inventories, f"{_RULE}:delete", 5), missing=405),
    _show(_INVENTORY, show_inventory, f"{_RULE}:show"),
    _of_provider("PUT", _INVENTORY, update_inventory, f"{_RULE}:update", PUT_INVENTORY),
    _remove(_INVENTORY, delete_inventory, f"{_RULE}:delete"),
)

_OF_ASSOCIATIONS = (
    _show(_AGGREGATES, list_aggregates, "resource_providers:aggregates:list", 1),
    _of_provider(
        "PUT",
        _AGGREGATES,
        update_aggregates,
        "resource_providers:aggregates:update",
        PUT_AGGREGATES,
    ),
    _show(_PROVIDER_TRAITS, list_provider_traits, "resource_providers:traits:list", 6),
    # This is not `_of_provider`: for traits, Placement validates the body before it looks up the
    # provider.
    _send(
        "PUT",
        _PROVIDER_TRAITS,
        update_provider_traits,
        "resource_providers:traits:update",
        PUT_TRAITS,
    ),
    _remove(_PROVIDER_TRAITS, delete_provider_traits, "resource_providers:traits:delete", 6),
)

_OF_TRAITS = (
    _show("/traits", list_traits, "traits:list", 6, asks=LIST_TRAITS),
    # Placement sends `last-modified` in the responses of these two routes, which have no body.
    PlacementRoute("GET", _TRAIT, show_trait, _rule("traits:show"), since=6, is_timed=True),
    PlacementRoute("PUT", _TRAIT, put_trait, _rule("traits:update"), since=6, is_timed=True),
    _remove(_TRAIT, delete_trait, "traits:delete", 6),
)

_OF_CLASSES = (
    _show(_CLASSES, list_classes, "resource_classes:list", 2),
    _send("POST", _CLASSES, create_class, "resource_classes:create", POST_CLASS),
    _show(_CLASS, show_class, "resource_classes:show", 2),
    # Up to 1.6, PUT has a body and renames a class; from 1.7 on, it has none and creates the class.
    replace(_send("PUT", _CLASS, rename_class, "resource_classes:update", PUT_CLASS), until=6),
    PlacementRoute("PUT", _CLASS, ensure_class, _rule("resource_classes:update"), since=7),
    _remove(_CLASS, delete_class, "resource_classes:delete", 2),
)

_OF_ALLOCATIONS = (
    _send("POST", "/allocations", manage_allocations, "allocations:manage", POST_ALLOCATIONS),
    _show(_CONSUMER, show_allocations, "allocations:list"),
    _send("PUT", _CONSUMER, update_allocations, "allocations:update", PUT_ALLOCATIONS),
    _remove(_CONSUMER, delete_allocations, "allocations:delete"),
    _show(
        "/allocation_candidates",
        list_candidates,
        "allocation_candidates:list",
        10,
        asks=LIST_CANDIDATES,
    ),
    replace(_show("/usages", show_usages, "usages", 9, asks=SHOW_USAGES), project_in="project_id"),
    _send("POST", "/reshaper", reshape, "reshaper:reshape", POST_RESHAPER),
)

ACTIONS = (
    *_ROOT,
    *_OF_PROVIDERS,
    *_OF_INVENTORIES,
    *_OF_ASSOCIATIONS,
    *_OF_TRAITS,
    *_OF_CLASSES,
    *_OF_ALLOCATIONS,
)
