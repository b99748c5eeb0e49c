"""All actions of the Placement API, in one table."""

from berth.api.placement.actions import PUBLIC, Action
from berth.api.placement.finding import provider_of
from berth.api.placement.handlers.aggregates import list_aggregates, update_aggregates
from berth.api.placement.handlers.allocation_candidates import list_candidates
from berth.api.placement.handlers.allocations import (
    delete_allocations,
    list_provider_allocations,
    manage_allocations,
    show_allocations,
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
from berth.api.placement.handlers.reshaper import reshape
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
    list_providers,
    show_provider,
    show_provider_usages,
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
from berth.api.placement.handlers.usages import show_usages
from berth.api.placement.schemas.allocations import POST_ALLOCATIONS, POST_RESHAPER, PUT_ALLOCATIONS
from berth.api.placement.schemas.names import POST_CLASS, PUT_CLASS
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

PREFIX = "/placement"
"""Where the API is in a server that has others, too."""

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


_ROOT = tuple(Action("GET", path, show_versions, PUBLIC) for path in ("", "/"))

_OF_PROVIDERS = (
    Action(
        "GET",
        _PROVIDERS,
        list_providers,
        _rule("resource_providers:list"),
        asks=LIST_PROVIDERS,
        shows=True,
    ),
    Action(
        "POST",
        _PROVIDERS,
        create_provider,
        _rule("resource_providers:create"),
        takes=POST_PROVIDER,
    ),
    Action("GET", _PROVIDER, show_provider, _rule("resource_providers:show"), shows=True),
    Action(
        "PUT",
        _PROVIDER,
        update_provider,
        _rule("resource_providers:update"),
        takes=PUT_PROVIDER,
        subject=provider_of,
    ),
    Action("DELETE", _PROVIDER, delete_provider, _rule("resource_providers:delete")),
)

_OF_INVENTORIES = (
    Action(
        "GET",
        _INVENTORIES,
        list_inventories,
        _rule("resource_providers:inventories:list"),
        shows=True,
    ),
    Action(
        "POST",
        _INVENTORIES,
        create_inventory,
        _rule("resource_providers:inventories:create"),
        takes=POST_INVENTORY,
        subject=provider_of,
    ),
    Action(
        "PUT",
        _INVENTORIES,
        update_inventories,
        _rule("resource_providers:inventories:update"),
        takes=PUT_INVENTORIES,
        subject=provider_of,
    ),
    Action(
        "DELETE",
        _INVENTORIES,
        delete_inventories,
        _rule("resource_providers:inventories:delete"),
        since=5,
        missing=405,
    ),
    Action(
        "GET", _INVENTORY, show_inventory, _rule("resource_providers:inventories:show"), shows=True
    ),
    Action(
        "PUT",
        _INVENTORY,
        update_inventory,
        _rule("resource_providers:inventories:update"),
        takes=PUT_INVENTORY,
        subject=provider_of,
    ),
    Action("DELETE", _INVENTORY, delete_inventory, _rule("resource_providers:inventories:delete")),
)

_OF_ONE_PROVIDER = (
    Action(
        "GET",
        f"{_PROVIDER}/usages",
        show_provider_usages,
        _rule("resource_providers:usages"),
        shows=True,
    ),
    Action(
        "GET",
        _AGGREGATES,
        list_aggregates,
        _rule("resource_providers:aggregates:list"),
        since=1,
        shows=True,
    ),
    Action(
        "PUT",
        _AGGREGATES,
        update_aggregates,
        _rule("resource_providers:aggregates:update"),
        since=1,
        takes=PUT_AGGREGATES,
        subject=provider_of,
    ),
    Action(
        "GET",
        f"{_PROVIDER}/allocations",
        list_provider_allocations,
        _rule("resource_providers:allocations:list"),
        shows=True,
    ),
    Action(
        "GET",
        _PROVIDER_TRAITS,
        list_provider_traits,
        _rule("resource_providers:traits:list"),
        since=6,
        shows=True,
    ),
    Action(
        "PUT",
        _PROVIDER_TRAITS,
        update_provider_traits,
        _rule("resource_providers:traits:update"),
        since=6,
        takes=PUT_TRAITS,
    ),
    Action(
        "DELETE",
        _PROVIDER_TRAITS,
        delete_provider_traits,
        _rule("resource_providers:traits:delete"),
        since=6,
    ),
)

_OF_TRAITS = (
    Action(
        "GET", "/traits", list_traits, _rule("traits:list"), since=6, asks=LIST_TRAITS, shows=True
    ),
    Action("GET", _TRAIT, show_trait, _rule("traits:show"), since=6, is_timed=True),
    Action("PUT", _TRAIT, put_trait, _rule("traits:update"), since=6, is_timed=True),
    Action("DELETE", _TRAIT, delete_trait, _rule("traits:delete"), since=6),
)

_OF_CLASSES = (
    Action("GET", _CLASSES, list_classes, _rule("resource_classes:list"), since=2, shows=True),
    Action(
        "POST", _CLASSES, create_class, _rule("resource_classes:create"), since=2, takes=POST_CLASS
    ),
    Action("GET", _CLASS, show_class, _rule("resource_classes:show"), since=2, shows=True),
    Action(
        "PUT",
        _CLASS,
        rename_class,
        _rule("resource_classes:update"),
        since=2,
        until=6,
        takes=PUT_CLASS,
    ),
    Action("PUT", _CLASS, ensure_class, _rule("resource_classes:update"), since=7),
    Action("DELETE", _CLASS, delete_class, _rule("resource_classes:delete"), since=2),
)

_OF_ALLOCATIONS = (
    Action(
        "POST",
        "/allocations",
        manage_allocations,
        _rule("allocations:manage"),
        since=13,
        takes=POST_ALLOCATIONS,
    ),
    Action("GET", _CONSUMER, show_allocations, _rule("allocations:list"), shows=True),
    Action(
        "PUT",
        _CONSUMER,
        update_allocations,
        _rule("allocations:update"),
        takes=PUT_ALLOCATIONS,
    ),
    Action("DELETE", _CONSUMER, delete_allocations, _rule("allocations:delete")),
    Action(
        "GET",
        "/allocation_candidates",
        list_candidates,
        _rule("allocation_candidates:list"),
        since=10,
        asks=LIST_CANDIDATES,
        shows=True,
    ),
    Action(
        "GET",
        "/usages",
        show_usages,
        _rule("usages"),
        since=9,
        asks=SHOW_USAGES,
        project_in="project_id",
        shows=True,
    ),
    Action("POST", "/reshaper", reshape, _rule("reshaper:reshape"), since=30, takes=POST_RESHAPER),
)

ACTIONS = (
    *_ROOT,
    *_OF_PROVIDERS,
    *_OF_INVENTORIES,
    *_OF_ONE_PROVIDER,
    *_OF_TRAITS,
    *_OF_CLASSES,
    *_OF_ALLOCATIONS,
)
