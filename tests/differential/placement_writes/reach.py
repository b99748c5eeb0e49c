"""The requests and outcomes that sequences reach, to check that all are covered."""

from collections.abc import Iterator, Mapping
from typing import Final

from berth.api.placement.dispatch import Matcher
from berth.api.placement.routes import ACTIONS
from tests.differential.placement_writes.comparing import Exchange, told

LEAST: Final[Mapping[str, int]] = {
    "newest version": 232,
    "older version": 659,
    "unknown method: 405": 7,
    "unknown route: 404": 5,
    "code concurrent_update": 15,
    "code duplicate_name": 1,
    "code inventory.inuse": 5,
    "code resource_provider.cannot_delete_parent": 1,
    "code resource_provider.inuse": 2,
    "DELETE /allocations/*: 204": 10,
    "DELETE /allocations/*: 404": 7,
    "DELETE /resource_classes/*: 404": 7,
    "DELETE /resource_classes/*: 409": 3,
    "DELETE /resource_providers/*/inventories/*: 204": 2,
    "DELETE /resource_providers/*/inventories/*: 404": 4,
    "DELETE /resource_providers/*/inventories/*: 409": 3,
    "DELETE /resource_providers/*/inventories: 204": 5,
    "DELETE /resource_providers/*/inventories: 409": 4,
    "DELETE /resource_providers/*/traits: 204": 2,
    "DELETE /resource_providers/*: 204": 5,
    "DELETE /resource_providers/*: 409": 6,
    "DELETE /traits/*: 204": 5,
    "DELETE /traits/*: 400": 1,
    "DELETE /traits/*: 404": 7,
    "DELETE /traits/*: 409": 1,
    "GET /allocations/*: 200": 34,
    "GET /resource_classes/*: 200": 4,
    "GET /resource_classes: 200": 10,
    "GET /resource_providers/*/aggregates: 200": 30,
    "GET /resource_providers/*/allocations: 200": 31,
    "GET /resource_providers/*/inventories/*: 200": 1,
    "GET /resource_providers/*/inventories/*: 404": 2,
    "GET /resource_providers/*/inventories: 200": 31,
    "GET /resource_providers/*/traits: 200": 33,
    "GET /resource_providers/*/usages: 200": 34,
    "GET /resource_providers/*: 200": 3,
    "GET /resource_providers: 200": 70,
    "GET /resource_providers: 400": 13,
    "GET /traits/*: 204": 6,
    "GET /traits/*: 404": 3,
    "GET /traits: 200": 25,
    "GET /traits: 400": 5,
    "GET /traits: 404": 1,
    "GET /usages: 200": 31,
    "POST /allocations: 204": 17,
    "POST /allocations: 400": 4,
    "POST /allocations: 409": 18,
    "POST /reshaper: 204": 18,
    "POST /reshaper: 400": 3,
    "POST /reshaper: 409": 10,
    "POST /resource_classes: 201": 10,
    "POST /resource_classes: 400": 2,
    "POST /resource_classes: 409": 3,
    "POST /resource_providers/*/inventories: 201": 11,
    "POST /resource_providers/*/inventories: 400": 3,
    "POST /resource_providers/*/inventories: 409": 3,
    "POST /resource_providers: 200": 22,
    "POST /resource_providers: 201": 10,
    "POST /resource_providers: 400": 5,
    "POST /resource_providers: 409": 1,
    "PUT /allocations/*: 204": 41,
    "PUT /allocations/*: 400": 5,
    "PUT /allocations/*: 409": 12,
    "PUT /resource_classes/*: 200": 3,
    "PUT /resource_classes/*: 201": 4,
    "PUT /resource_classes/*: 204": 4,
    "PUT /resource_classes/*: 400": 1,
    "PUT /resource_providers/*/aggregates: 200": 19,
    "PUT /resource_providers/*/aggregates: 400": 2,
    "PUT /resource_providers/*/aggregates: 409": 1,
    "PUT /resource_providers/*/inventories/*: 200": 8,
    "PUT /resource_providers/*/inventories/*: 400": 5,
    "PUT /resource_providers/*/inventories/*: 409": 1,
    "PUT /resource_providers/*/inventories: 200": 41,
    "PUT /resource_providers/*/inventories: 400": 9,
    "PUT /resource_providers/*/inventories: 409": 5,
    "PUT /resource_providers/*/traits: 200": 17,
    "PUT /resource_providers/*/traits: 400": 3,
    "PUT /resource_providers/*/traits: 409": 1,
    "PUT /resource_providers/*: 200": 26,
    "PUT /resource_providers/*: 400": 4,
    "PUT /traits/*: 201": 16,
    "PUT /traits/*: 204": 5,
    "PUT /traits/*: 400": 2,
}
"""The least number of requests of each kind and outcome."""

_NEWEST: Final = 39
_matcher = Matcher(ACTIONS)


def reached(exchange: Exchange) -> Iterator[str]:
    """Yield what an exchange reached: version, route with status, and code of the answer."""
    sent, said = exchange.sent, told(exchange.real)
    yield "newest version" if sent.minor == _NEWEST else "older version"
    found = _matcher.find(sent.path.partition("?")[0])
    if found is None:
        yield f"unknown route: {said.status}"
        return
    methods, keys = found
    (action, *_) = methods.get(sent.method, (None,))
    if action is None:
        yield f"unknown method: {said.status}"
        return
    path = action.path
    for name in keys:
        path = path.replace(f"{{{name}}}", "*")
    yield f"{sent.method} {path}: {said.status}"
    if said.code:
        yield f"code {said.code.removeprefix('placement.')}"
