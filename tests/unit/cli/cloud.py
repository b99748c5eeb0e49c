"""A simulated cloud: the API's answers, as far as the client needs them."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

Json = dict[str, Any]

UUID = "00000000-0000-4000-8000-{:012d}"
PAGE = 2
"""The number of servers on one page of a list."""


@dataclass
class Cloud:
    """A cloud that keeps flavors, servers and other resources, and records requests.

    `fixed` answers a (method, path) with a status and a document. `builds` holds the fields that a
    server in BUILD gets after it was shown; `next_build` returns those of one server after the
    other.
    """

    flavors: dict[str, Json] = field(default_factory=dict)
    servers: dict[str, Json] = field(default_factory=dict)
    groups: dict[str, Json] = field(default_factory=dict)
    aggregates: dict[str, Json] = field(default_factory=dict)
    services: dict[str, Json] = field(default_factory=dict)
    images: dict[str, Json] = field(default_factory=dict)
    fixed: dict[tuple[str, str], tuple[int, object]] = field(default_factory=dict)
    builds: Json = field(default_factory=lambda: {"status": "ACTIVE"})
    next_build: Callable[[], Json] | None = None
    asked: list[httpx.Request] = field(default_factory=list)
    options: dict[str, object] = field(default_factory=dict)
    fails: Exception | None = None

    def add_flavor(self, name: str = "small", **more: object) -> Json:
        """Add a flavor, whose id is `id-NAME`, and return it."""
        made: Json = {"id": f"id-{name}", "name": name, "vcpus": 1, "ram": 512, "disk": 1}
        self.flavors[made["id"]] = made | more
        return made

    def add_server(self, name: str, **more: object) -> Json:
        """Add a server that is ACTIVE by default, and return it."""
        uuid = UUID.format(len(self.servers) + 1)
        flavor = {"original_name": "small"}
        self.servers[uuid] = {"id": uuid, "name": name, "status": "ACTIVE", "flavor": flavor} | more
        return self.servers[uuid]

    def add_service(self, host: str) -> Json:
        """Add the compute service of a host and return it."""
        uuid = UUID.format(900 + len(self.services))
        made: Json = {"id": uuid, "host": host, "binary": "nova-compute", "status": "enabled"}
        self.services[uuid] = made
        return made

    @property
    def last(self) -> httpx.Request:
        """The last request."""
        return self.asked[-1]

    def body(self, index: int = -1) -> Json:
        """Return the body of a request."""
        document: Json = json.loads(self.asked[index].content)
        return document

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Record a request and answer it."""
        self.asked.append(request)
        if self.fails is not None:
            raise self.fails
        key = (request.method, request.url.path)
        if key in self.fixed:
            status, document = self.fixed[key]
            if isinstance(document, str):
                return httpx.Response(status, text=document)
            return httpx.Response(status, json=document)
        for method, pattern, handler in self._routes():
            found = re.fullmatch(pattern, request.url.path)
            if found and method == request.method:
                return handler(request, *found.groups())
        return not_found(request.url.path)

    def _routes(self) -> list[tuple[str, str, Callable[..., httpx.Response]]]:
        return [
            ("GET", "/v2.1/flavors/detail", self._list("flavors", self.flavors)),
            ("POST", "/v2.1/flavors", self._create_flavor),
            ("GET", "/v2.1/flavors/([^/]+)", self._show("flavor", self.flavors)),
            ("DELETE", "/v2.1/flavors/([^/]+)", self._delete(self.flavors)),
            ("POST", "/v2.1/flavors/([^/]+)/os-extra_specs", self._add_specs),
            ("DELETE", "/v2.1/flavors/([^/]+)/os-extra_specs/([^/]+)", self._delete_spec),
            ("GET", "/v2.1/servers", self._list_servers),
            ("GET", "/v2.1/servers/detail", self._list_servers),
            ("POST", "/v2.1/servers", self._create_servers),
            ("GET", "/v2.1/servers/([^/]+)", self._show_server),
            ("DELETE", "/v2.1/servers/([^/]+)", self._delete(self.servers)),
            ("GET", "/v2.1/os-server-groups", self._list("server_groups", self.groups)),
            ("POST", "/v2.1/os-server-groups", self._create_group),
            ("GET", "/v2.1/os-server-groups/([^/]+)", self._show("server_group", self.groups)),
            ("DELETE", "/v2.1/os-server-groups/([^/]+)", self._delete(self.groups)),
            ("GET", "/v2.1/os-aggregates", self._list("aggregates", self.aggregates)),
            ("POST", "/v2.1/os-aggregates", self._create_aggregate),
            ("PUT", "/v2.1/os-aggregates/([^/]+)", self._change("aggregate", self.aggregates)),
            ("POST", "/v2.1/os-aggregates/([^/]+)/action", self._act_on_aggregate),
            ("DELETE", "/v2.1/os-aggregates/([^/]+)", self._delete(self.aggregates)),
            ("GET", "/image/v2/images", self._list_images),
            ("GET", "/image/v2/images/([^/]+)", self._show_image),
            ("DELETE", "/image/v2/images/([^/]+)", self._delete(self.images)),
            ("GET", "/v2.1/os-services", self._list("services", self.services)),
            ("PUT", "/v2.1/os-services/([^/]+)", self._change_service),
            ("DELETE", "/v2.1/os-services/([^/]+)", self._delete(self.services)),
        ]

    def _list(self, key: str, kept: dict[str, Json]) -> Callable[..., httpx.Response]:
        return lambda request: httpx.Response(200, json={key: list(kept.values())})

    def _list_images(self, request: httpx.Request) -> httpx.Response:
        names = list(self.images)
        marker = request.url.params.get("marker")
        start = 0 if marker is None else names.index(marker) + 1
        page: Json = {"images": [self.images[name] for name in names[start : start + PAGE]]}
        if names[start + PAGE :]:
            page["next"] = f"/v2/images?marker={names[start + PAGE - 1]}"
        return httpx.Response(200, json=page)

    def _show_image(self, _: httpx.Request, name: str) -> httpx.Response:
        found = self.images.get(name)
        return not_found(name) if found is None else httpx.Response(200, json=found)

    def _show(self, key: str, kept: dict[str, Json]) -> Callable[..., httpx.Response]:
        def show(request: httpx.Request, name: str) -> httpx.Response:
            return httpx.Response(200, json={key: kept[name]}) if name in kept else not_found(name)

        return show

    def _delete(self, kept: dict[str, Json]) -> Callable[..., httpx.Response]:
        def delete(request: httpx.Request, name: str) -> httpx.Response:
            return httpx.Response(204) if kept.pop(name, None) else not_found(name)

        return delete

    def _change(self, key: str, kept: dict[str, Json]) -> Callable[..., httpx.Response]:
        def change(request: httpx.Request, name: str) -> httpx.Response:
            kept[name] |= json.loads(request.content)[key]
            return httpx.Response(200, json={key: kept[name]})

        return change

    def _create_flavor(self, request: httpx.Request) -> httpx.Response:
        new = json.loads(request.content)["flavor"]
        made = {"id": f"id-{new['name']}", **new}
        self.flavors[made["id"]] = made
        return httpx.Response(200, json={"flavor": made})

    def _add_specs(self, request: httpx.Request, name: str) -> httpx.Response:
        specs = json.loads(request.content)
        self.flavors[name].setdefault("extra_specs", {}).update(specs["extra_specs"])
        return httpx.Response(200, json=specs)

    def _delete_spec(self, request: httpx.Request, name: str, key: str) -> httpx.Response:
        found = self.flavors[name].get("extra_specs", {}).pop(key, None)
        return not_found(key) if found is None else httpx.Response(200)

    def _list_servers(self, request: httpx.Request) -> httpx.Response:
        params = request.url.params
        found = [
            one
            for one in self.servers.values()
            if re.search(params.get("name", ""), one["name"])
            and params.get("reservation_id") in (None, one.get("reservation_id"))
            and one["status"] == params.get("status", one["status"])
            and ("status" in params or one["status"] != "SOFT_DELETED")
        ]
        ids = [one["id"] for one in found]
        start = ids.index(params["marker"]) + 1 if "marker" in params else 0
        page: Json = {"servers": [dict(one) for one in found[start : start + PAGE]]}
        for one in found[start : start + PAGE] if "reservation_id" in params else ():
            self._build(one)
        if len(found) > start + PAGE:
            page["servers_links"] = [{"rel": "next", "href": "http://elsewhere"}]
        return httpx.Response(200, json=page)

    def _create_servers(self, request: httpx.Request) -> httpx.Response:
        new = json.loads(request.content)["server"]
        made = [
            self.add_server(
                new["name"],
                status="BUILD",
                reservation_id="r-1",
                **{"OS-EXT-SRV-ATTR:reservation_id": "r-1"},
            )
            for _ in range(new["max_count"])
        ]
        if new["return_reservation_id"]:
            return httpx.Response(202, json={"reservation_id": "r-1"})
        return httpx.Response(202, json={"server": {"id": made[0]["id"]}})

    def _show_server(self, request: httpx.Request, uuid: str) -> httpx.Response:
        if uuid not in self.servers:
            return not_found(uuid)
        before = dict(self.servers[uuid])
        self._build(self.servers[uuid])
        return httpx.Response(200, json={"server": before})

    def _build(self, server: Json) -> None:
        if server["status"] == "BUILD":
            server |= self.builds if self.next_build is None else self.next_build()

    def _create_group(self, request: httpx.Request) -> httpx.Response:
        uuid = UUID.format(500 + len(self.groups))
        made = {"id": uuid, "members": [], **json.loads(request.content)["server_group"]}
        self.groups[uuid] = made
        return httpx.Response(200, json={"server_group": made})

    def _create_aggregate(self, request: httpx.Request) -> httpx.Response:
        new = json.loads(request.content)["aggregate"]
        number = len(self.aggregates) + 1
        made = {"id": number, "hosts": [], "metadata": {}, "availability_zone": None, **new}
        self.aggregates[str(number)] = made
        return httpx.Response(200, json={"aggregate": made})

    def _act_on_aggregate(self, request: httpx.Request, name: str) -> httpx.Response:
        made = self.aggregates[name]
        match json.loads(request.content):
            case {"add_host": {"host": host}} if host in made["hosts"]:
                message = f"{host} is there already"
                return httpx.Response(409, json={"conflictingRequest": {"message": message}})
            case {"add_host": {"host": host}}:
                made["hosts"].append(host)
            case {"remove_host": {"host": host}}:
                made["hosts"].remove(host)
            case {"set_metadata": {"metadata": metadata}}:
                made["metadata"] |= metadata
        return httpx.Response(200, json={"aggregate": made})

    def _change_service(self, request: httpx.Request, name: str) -> httpx.Response:
        self.services[name] |= json.loads(request.content)
        return httpx.Response(200, json={"service": self.services[name]})


def not_found(what: str) -> httpx.Response:
    """Return the answer 404 for something that does not exist."""
    message = f"{what} could not be found."
    return httpx.Response(404, json={"itemNotFound": {"code": 404, "message": message}})
