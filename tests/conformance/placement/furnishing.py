"""Creates the providers and allocations of a scene over HTTP."""

import json
from collections.abc import Mapping
from http.client import HTTPConnection

from tests.conformance.placement.scenes import Holder, Node, Scene, uuid_of

_TIMEOUT_S = 30.0


class FurnishingError(Exception):
    """A server refused a request of a scene; the message has the request and the answer."""


class Client:
    """A client of the Placement API as the admin of `noauth2`, with one connection per request."""

    def __init__(self, port: int) -> None:
        self._port = port

    def send(self, method: str, path: str, body: object = None, version: str = "1.39") -> object:
        """Send a request and return the JSON of the answer, None if its body is empty.

        Raises:
            FurnishingError: the status is 400 or more, or there is no answer.
        """
        headers = {
            "x-auth-token": "admin",
            "openstack-api-version": f"placement {version}",
            "accept": "application/json",
        }
        if body is not None:
            headers["content-type"] = "application/json"
        connection = HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_S)
        try:
            connection.request(
                method, path, json.dumps(body) if body is not None else None, headers
            )
            answer = connection.getresponse()
            text = answer.read()
        except OSError as error:
            raise FurnishingError(f"{method} {path}: {error}") from error
        finally:
            connection.close()
        if answer.status >= 400:
            raise FurnishingError(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text) if text else None


def furnish(client: Client, scene: Scene) -> None:
    """Create all providers and allocations of a scene.

    Custom classes and traits come first, then the providers one by one, then the allocations.

    Raises:
        FurnishingError: the server refused something.
    """
    classes = {name for one in scene.nodes for name in one.stocks if name.startswith("CUSTOM_")}
    traits = {name for one in scene.nodes for name in one.traits if name.startswith("CUSTOM_")}
    for name in sorted(classes):
        client.send("PUT", f"/resource_classes/{name}")
    for name in sorted(traits):
        client.send("PUT", f"/traits/{name}")
    uuids = {one.name: one.uuid for one in scene.nodes}
    for one in scene.nodes:
        _make(client, one, uuids, scene.variables)
    for holder in scene.holders:
        _take(client, holder, uuids)


def _make(client: Client, one: Node, uuids: Mapping[str, str], labels: Mapping[str, str]) -> None:
    body = {"name": one.name, "uuid": one.uuid}
    if one.parent is not None:
        body["parent_provider_uuid"] = uuids[one.parent]
    client.send("POST", "/resource_providers", body)
    path = f"/resource_providers/{one.uuid}"
    if one.aggregates:
        # Before 1.19 this does not raise the generation, and neither do the suite's own fixtures.
        client.send("PUT", f"{path}/aggregates", [labels[name] for name in one.aggregates], "1.1")
    for name, stock in one.stocks.items():
        client.send("POST", f"{path}/inventories", {"resource_class": name, **stock.body()})
    if one.traits:
        # Each inventory above has raised the generation by one.
        wanted = {"resource_provider_generation": len(one.stocks), "traits": one.traits}
        client.send("PUT", f"{path}/traits", wanted)


def _take(client: Client, holder: Holder, uuids: Mapping[str, str]) -> None:
    # Version 1.12 has no consumer types, and the suite's own consumers have none.
    body = {
        "allocations": {uuids[holder.provider]: {"resources": holder.amounts}},
        "project_id": holder.project_id,
        "user_id": holder.user_id,
    }
    client.send("PUT", f"/allocations/{uuid_of(holder.label)}", body, "1.12")
