"""Random requests of parents, tenants, strangers and operators to a tree of zones."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from berth.api.app import OPERATIONS
from berth.domain.compute.instance import Fault, Instance, Status
from berth.domain.compute.request import Request
from berth.domain.ledger.write import Put
from berth.ports.zones import STATEMENT_HEADER
from tests.integration.zone_leaks.recorded_tree import (
    ACCOUNT,
    FLAVORS,
    OPEN_ZONE,
    OPERATOR,
    PARENT,
    PARENTS,
    TENANT,
    Record,
    Said,
    speak,
)
from tests.unit.api.zones.tree import Net, ZoneStack

Json = dict[str, Any]


def _stated_flavor(name: str, memory_mb: int, *, vcpus: int = 1) -> Json:
    return {"flavor_id": name, "name": name, "vcpus": vcpus, "memory_mb": memory_mb, "root_gb": 1}


_AWAY: Final = 0.1
"""The share of requests during which the lowest zone does not answer its parent."""
_CHILDREN: Final = ("west", "east", "deep")
_VERSIONS: Final = (b"2.1", b"2.35", b"2.62", b"2.84", b"2.96", b"2.100")
_ACTIONS: Final[Sequence[Json]] = (
    {"os-getConsoleOutput": {}},
    {"os-getConsoleOutput": {"length": 5}},
    {"os-getVNCConsole": {"type": "novnc"}},
    {"resize": {"flavorRef": "huge"}},
    {"resize": {"flavorRef": "none"}},
    # Parents send whole flavors and images, because names may mean something else in the zone.
    {"resize": {"flavor": _stated_flavor("small", 4096)}},
    {"resize": {"flavor": _stated_flavor("huge", FLAVORS["huge"])}},
    {"resize": {"flavor": _stated_flavor("many", 4096, vcpus=4096)}},
    {"rebuild": {"image": {"image_id": "11111111-2222-4333-8444-555555555555"}}},
    {"rebuild": {"image": {"image_id": "other", "min_ram_mb": 2**40}}},
    {"migrate": None},
    {"os-migrateLive": {"host": "elsewhere", "block_migration": "auto"}},
    {"evacuate": {"host": "elsewhere"}},
    {"rebuild": {"imageRef": "11111111-2222-4333-8444-555555555555"}},
    {"unshelve": {"host": "elsewhere"}},
    {"unshelve": {"availability_zone": "az-none"}},
    {"os-stop": None},
    {"reboot": {"type": "HARD"}},
    {"lock": {"locked_reason": "so"}},
    {"unlock": None},
    {"shelve": None},
    {"nonsense": {}},
)
_ZONES: Final = (OPEN_ZONE, "az-none", "nova:elsewhere")
_UUID: Final = "00000000-1111-4222-8333-444444444444"
_PATHS: Final = tuple(
    sorted({(one.method, one.path) for one in OPERATIONS if one.method in {"GET", "POST", "PUT"}})
)
_FURTHER: Final = ("/openapi.json", "/healthz", "/readyz", "/metrics", "/placement/", "/nowhere")


@dataclass
class Known:
    """What a parent knows about a zone: the offers that it has, and its instances there."""

    offers: list[tuple[Json, str, int]] = field(default_factory=list[tuple[Json, str, int]])
    select_ids: list[str] = field(default_factory=list[str])
    uuids: list[str] = field(default_factory=list[str])


class RandomRequests:
    """Sends random requests to a tree of zones.

    Args:
        net: the zones.
        record: counts the requests.
        seed: the seed of all random choices.
    """

    def __init__(self, net: Net, record: Record, seed: int) -> None:
        self._net = net
        self._record = record
        self._random = Random(seed)
        self._known = {name: Known() for name in _CHILDREN}
        self._made: list[str] = []
        self._number = 0
        self._kinds: Mapping[Callable[[], Awaitable[object]], int] = {
            self._select: 26,
            self._build: 12,
            self._release: 5,
            self._ask_for_server: 16,
            self._list_servers: 5,
            self._wrongly_stated: 6,
            self._by_account: 10,
            self._create_over_tree: 1,
            self._tenant: 12,
            self._operator: 3,
            self._info: 4,
        }

    async def run(self, count: int) -> None:
        """Send this many requests; every 1,000 requests, move the clock on."""
        kinds, weights = [*self._kinds], [*self._kinds.values()]
        for done in range(1, count + 1):
            (kind,) = self._random.choices(kinds, weights)
            self._net.away = {"deep"} if self._random.random() < _AWAY else set[str]()
            await kind()
            self._record.requests += 1
            if done % 1000 == 0:
                self._net.clock.seconds += 11
                for zone in self._net.zones.values():
                    zone.house.held.expire(zone.clock.now_s())

    # ---- requests of parents ------------------------------------------------------------------

    async def _select(self) -> None:
        """Request offers or the capacity, rarely for too many or with specs that name hosts."""
        zone, rare = self._child(), self._random.random()
        request = self._request(zone)
        message: Json = {"request": request, "num_instances": self._random.choice((1, 1, 2, 5))}
        if rare < 0.002:
            message["num_instances"] = 1000
            request["flavor"]["memory_mb"] = FLAVORS["half"]
        message["blob_bytes"] = size = self._random.choice((407, 512, 512, 1024))
        message["hold"] = self._random.random() < 0.8
        if self._random.random() < 0.1:
            message["group"] = self._group(request)
        if self._random.random() < 0.08:
            message = self._spoilt(message)
        if self._random.random() < 0.1:
            await self._state(zone, "POST", "/zones/capacity", message)
            return
        said = await self._state(zone, "POST", "/zones/select", message)
        if said.status != 200:
            return
        offers = json.loads(said.body)
        assert {len(one["blob"]) for one in offers["weights"]} <= {-(-size * 8 // 6)}
        known = self._known[zone.name]
        known.select_ids.append(offers["select_id"])
        known.offers += [(request, one["blob"], size) for one in offers["weights"][:5]]

    async def _build(self) -> None:
        """Build on an offer that is valid, of another request, altered or used."""
        zone = self._child()
        known, rare = self._known[zone.name], self._random.random()
        request, blob = self._request(zone), "x" * 683
        if known.offers:
            request, blob, _ = known.offers[-1] if rare > 0.5 else self._random.choice(known.offers)
        if rare < 0.1:
            request = self._request(zone)
        if 0.1 < rare < 0.2:
            blob = f"{blob[:20]}AAAA{blob[24:]}"
        uuid = self._uuid()
        one = {"uuid": uuid, "name": "vm", "blob": blob, "sent_ms": 1}
        message: Json = {"request": request, "reservation_id": "r-00000001", "instances": [one]}
        if 0.2 < rare < 0.3:
            message = self._spoilt(message)
        said = await self._state(zone, "POST", "/v2.1/servers", message)
        if said.status == 202 and not json.loads(said.body)["instances"][0].get("flaw"):
            known.uuids.append(uuid)
            await self._happen(zone, uuid)

    async def _release(self) -> None:
        zone = self._child()
        known = self._known[zone.name]
        surplus = [{"select_id": one} for one in known.select_ids[-3:]]
        withdrawn = [{"uuid": uuid, "sent_ms": 2} for uuid in self._some(known.uuids, 1)]
        message: Json = {"surplus": surplus, "withdrawn": withdrawn, "keeps_built": True}
        if self._random.random() < 0.2:
            message = self._spoilt(message)
        await self._state(zone, "POST", "/zones/release", message)

    async def _ask_for_server(self) -> None:
        """Send a random request about one server, or about an unknown one."""
        zone = self._child()
        uuid = (self._some(self._known[zone.name].uuids, 1) or [_UUID])[0]
        await self._about(uuid, lambda *asked: self._state(zone, *asked))

    async def _about(
        self, uuid: str, ask: Callable[[str, str, Json | None], Awaitable[Said]]
    ) -> None:
        path = f"/v2.1/servers/{uuid}"
        if self._random.random() < 0.4:
            await ask("POST", f"{path}/action", self._random.choice(_ACTIONS))
            return
        below = ("", "", "/os-instance-actions", "/metadata", "/tags", "/migrations", "/nothing")
        where = path + self._random.choice(below)
        said = await ask("GET", where, None)
        if where.endswith("/os-instance-actions") and said.status == 200:
            for one in json.loads(said.body)["instanceActions"][:2]:
                await ask("GET", f"{where}/{one['request_id']}", None)

    async def _list_servers(self) -> None:
        queries = ("", "?limit=2", "?host=elsewhere", "?sort_key=host", "?all_tenants=1", "?node=a")
        query = self._random.choice(queries)
        path = self._random.choice(("/v2.1/servers", "/v2.1/servers/detail"))
        await self._state(self._child(), "GET", path + query, None)

    async def _info(self) -> None:
        await self._state(self._child(), "GET", "/zones/info", None)

    async def _wrongly_stated(self) -> None:
        """Send a statement for another path, of another parent, or truncated."""
        zone, rare = self._child(), self._random.random()
        method, path = self._random.choice(_PATHS)
        path = self._path(path)
        parent = PARENTS[zone.name] if rare < 0.7 else "nobody"
        asked = path if rare > 0.3 else "/zones/info"
        text = zone.statement(method, asked, b"{}" if method != "GET" else b"", parent=parent)
        text = text[:40] if 0.5 < rare < 0.6 else text
        await self._speak(zone, PARENT, method, path, b"{}", [(_HEADER, text.encode())])

    async def _by_account(self) -> None:
        """Send a request with a parent's account, which has no project, and without a statement."""
        zone = self._child()
        method, path = self._random.choice(_PATHS)
        if self._random.random() < 0.2:
            method, path = "GET", self._random.choice(_FURTHER)
        await self._speak(zone, ACCOUNT, method, self._path(path), b"{}")

    # ---- requests to the root -------------------------------------------------------------------

    async def _create_over_tree(self) -> None:
        count = self._random.choice((1, 2, 3))
        server: Json = {"name": "vm", "networks": "none", "num_instances": count}
        server["flavorRef"] = self._random.choice(("small", "small", "half", "huge", "none"))
        hints = self._hints() if self._random.random() < 0.3 else {}
        if self._random.random() < 0.2:
            server["availability_zone"] = self._random.choice(_ZONES)
        body = {"server": server, "os:scheduler_hints": hints}
        root = self._net.zones["root"]
        said = await self._as_tenant("POST", "/zones/servers", body)
        if said.status == 202:
            key = json.loads(said.body)["reservation_id"]
            found = await self._as_tenant("GET", f"/v2.1/servers?reservation_id={key}", None)
            self._made += [one["id"] for one in json.loads(found.body)["servers"]]
            for name in ("west", "east", "deep"):
                for uuid in self._made[-3:]:
                    await self._happen(self._net.zones[name], uuid)
        await root.follower.catch_up()

    async def _tenant(self) -> None:
        rare = self._random.random()
        if self._made and rare < 0.7:
            await self._about(self._random.choice(self._made), self._as_tenant)
        elif rare < 0.9:
            await self._as_tenant("GET", "/v2.1/servers/detail?limit=5", None)
        else:
            _, path = self._random.choice(_PATHS)
            await self._as_tenant("GET", self._path(path), None)

    async def _operator(self) -> None:
        """Send a request of the root's operator, who may see what the root's ledger has."""
        paths = ("/zones", "/zones/detail", "/berth/v1/decisions?limit=5", "/v2.1/servers/detail")
        path = self._random.choice(paths)
        await self._speak(self._net.zones["root"], OPERATOR, "GET", path)

    # ---- helpers --------------------------------------------------------------------------------

    async def _happen(self, zone: ZoneStack, uuid: str) -> None:
        """Make an instance active, or fail it with a message that names its host."""
        stored = await zone.ledger.get(Instance, uuid)
        if stored is None:
            return
        changed = replace(stored, status=Status.ACTIVE, task=None, launched_at_s=1.0)
        if self._random.random() < 0.3:
            flavor = replace(stored.flavor, memory_mb=FLAVORS["huge"])
            refused = zone.parts.decision_service.decide(
                Request("req-later", (uuid,), flavor, stored.project_id, stored.user_id)
            )
            assert refused.refusal is not None
            text = f"{refused.refusal.message} The build failed on 1 host."
            fault = Fault(500, text, 1.0, f"{stored.host}: no memory")
            changed = replace(stored, status=Status.ERROR, task=None, fault=fault)
        await zone.ledger.commit([(Put(changed),)])

    def _child(self) -> ZoneStack:
        return self._net.zones[self._random.choice(_CHILDREN)]

    def _some(self, of: Sequence[str], count: int) -> list[str]:
        return self._random.sample(of, min(count, len(of)))

    def _uuid(self) -> str:
        self._number += 1
        return f"aaaaaaaa-0000-4000-8000-{self._number:012x}"

    def _path(self, path: str) -> str:
        """Return the path with a uuid in place of each parameter."""
        parts = (_UUID if part.startswith("{") else part for part in path.split("/"))
        return "/".join(parts)

    def _hints(self) -> dict[str, list[str]]:
        hint = self._random.choice(
            (
                {"same_host": [_UUID]},
                {"different_host": [_UUID]},
                {"force_hosts": ["elsewhere"]},
                {"query": ['[">=", "$free_ram_mb", 1]']},
                {"query": ['[">", "$host", "a"]']},
                {"build_near_host_ip": ["10.0.0.1"], "cidr": ["/8"]},
                {"_nova_check_type": ["rebuild"]},
            )
        )
        return {key: list(values) for key, values in hint.items()}

    def _request(self, zone: ZoneStack) -> Json:
        """Return a request for one instance, rarely with specs or hints about hosts."""
        rare, name = self._random.random(), self._random.choice(("small",) * 7 + ("huge",))
        specs: Json = {}
        if rare < 0.05:
            specs = {self._random.choice(("capabilities:host", "uuid", "host_ip")): "s> a"}
        elif rare < 0.1:
            specs = {"capabilities:free_ram_mb": ">= 500"}
        self._number += 1
        request: Json = {
            "request_id": f"req-{zone.name}-{self._number}",
            "flavor": {
                "flavor_id": name,
                "name": name,
                "vcpus": 1,
                "memory_mb": FLAVORS[name],
                "root_gb": 1,
                "extra_specs": specs,
            },
            "project_id": "p",
            "user_id": "u",
        }
        if self._random.random() < 0.2:
            request["availability_zone"] = self._random.choice(_ZONES)
        if self._random.random() < 0.2:
            request["hints"] = self._hints()
        return request

    def _group(self, request: Json) -> Json:
        request["group_uuid"] = uuid = self._uuid()
        policy = self._random.choice(("affinity", "anti-affinity", "soft-affinity"))
        return {"uuid": uuid, "name": "g", "policy": policy, "project_id": "p", "user_id": "u"}

    def _spoilt(self, message: Json) -> Json:
        """Return the message with a wrong value in one field."""
        key = self._random.choice([*message])
        wrong: object = self._random.choice((None, -1, "x", [], {}, 10**12, {"a": [[]]}))
        return {**message, key: wrong}

    async def _state(self, zone: ZoneStack, method: str, path: str, body: Json | None) -> Said:
        """Send a request as the zone's parent, for a tenant."""
        raw = b"" if body is None else json.dumps(body).encode()
        text = zone.statement(method, path, raw, parent=PARENTS[zone.name])
        assert STATEMENT_HEADER.lower() == _HEADER.decode()
        return await self._speak(zone, PARENT, method, path, raw, [(_HEADER, text.encode())])

    async def _as_tenant(self, method: str, path: str, body: Json | None) -> Said:
        raw = b"" if body is None else json.dumps(body).encode()
        return await self._speak(self._net.zones["root"], TENANT, method, path, raw)

    async def _speak(
        self,
        zone: ZoneStack,
        asker: str,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Said:
        version = self._random.choice(_VERSIONS)
        tokens = {OPERATOR: b"admin", TENANT: b"u:p"}
        sent = [(b"openstack-api-version", b"compute " + version), *headers]
        sent.append((b"x-auth-token", tokens.get(asker, b"root")))
        return await speak(zone, asker, method, path, body, sent)


_HEADER: Final = b"x-berth-zone-statement"
