"""A tree of zones without a network, with canaries as hosts, whose messages are recorded."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from berth.api.app import build_app
from berth.api.auth.authentication import Credentials, Identity, NoAuth
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.write import Put
from berth.ports.virt import HostReport
from berth.services.zoning.children.capabilities import CapabilityReport
from tests.integration.zone_leaks.canaries import Canaries
from tests.unit.api.zones.tree import Net, ZoneStack

OPERATOR, TENANT, ACCOUNT, PARENT = "operator", "tenant", "account", "parent"
"""The kinds of clients of a zone: its operators, its tenants, and a parent with its account alone
or with a statement."""
OPEN_ZONE: Final = "az-one"
"""The name of an availability zone, which tenants may see."""
_BATCH: Final = 200

PARENTS: Final = {"root": "", "west": "root", "east": "root", "deep": "east"}
"""The parent of each zone."""
SECRETS: Final = {
    # The root has the fewest hosts, so no number of its hosts equals that of another zone.
    "root": Canaries("root", 1009, {MEMORY_MB: 9_276_371, VCPU: 4_256_233, DISK_GB: 6_372_161}),
    "west": Canaries("west", 1013, {MEMORY_MB: 7_368_787, VCPU: 3_145_739, DISK_GB: 5_461_007}),
    "east": Canaries("east", 1049, {MEMORY_MB: 7_668_793, VCPU: 3_445_751, DISK_GB: 5_761_013}),
    "deep": Canaries("deep", 1069, {MEMORY_MB: 7_968_811, VCPU: 3_745_769, DISK_GB: 6_061_021}),
}


class ParentAccounts(NoAuth):
    """An Auth that accepts every token and gives the accounts of parents no project."""

    async def identify(self, credentials: Credentials) -> Identity:
        """See `Auth.identify`."""
        if credentials.token in SECRETS:
            return Identity(credentials.token, "", is_admin=False)
        return await super().identify(credentials)


class Talk(NamedTuple):
    """A pair of teller and listener: `teller` answered, or sent a request as the parent."""

    teller: str
    listener: str


@dataclass
class Record:
    """All messages. `answers` has the answers to parents, as (request line, status, body)."""

    said: dict[Talk, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    answers: list[tuple[str, int, bytes]] = field(default_factory=list[tuple[str, int, bytes]])
    requests: int = 0

    def clear(self) -> None:
        """Forget all messages."""
        self.said.clear()
        self.answers.clear()


class Recorded:
    """An application whose requests and answers are kept, with their headers.

    The scope of a test's request names the asker; all other requests are the parent's.
    """

    def __init__(self, app: ASGIApp, name: str, parent: str, record: Record) -> None:
        self._app, self._name, self._parent, self._record = app, name, parent, record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and record it and its answer."""
        asker: str = scope.get("asker", PARENT)
        told = self._record.said[Talk(self._name, asker)]
        asked = bytearray()
        body = bytearray()
        status = 0

        async def hear() -> Message:
            message = await receive()
            asked.extend(message.get("body", b""))
            return message

        async def tell(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                told.extend(_head(b"%d" % status, message["headers"]))
            body.extend(message.get("body", b""))
            await send(message)

        await self._app(scope, hear, tell)
        told.extend(body + b"\n")
        if asker == PARENT:
            line = f"{scope['method']} {scope['path']}"
            sent = self._record.said[Talk(self._parent, self._name)]
            head = b"%s?%s" % (line.encode(), scope["query_string"])
            sent.extend(_head(head, scope["headers"]) + asked + b"\n")
            self._record.answers.append((line, status, bytes(body)))


def _head(line: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    return b"\n".join([line, *(b"%s: %s" % (name, value) for name, value in headers), b"", b""])


class Said(NamedTuple):
    """The status and body of an answer."""

    status: int
    body: bytes


async def speak(
    zone: ZoneStack,
    asker: str,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> Said:
    """Send a request to a zone as a kind of client, and return the answer."""
    where, _, query = path.partition("?")
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": where,
        "raw_path": where.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"zone.test"), (b"content-type", b"application/json"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("zone.test", 80),
        "asker": asker,
    }
    said = bytearray()
    status = 0

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        said.extend(message.get("body", b""))

    await zone.app(scope, receive, send)
    return Said(status, bytes(said))


def let_out(zone: ZoneStack, parent: str, record: Record, told: tuple[str, ...] = ()) -> None:
    """Make a zone disclose the ranges of these capabilities, by default of none."""
    info = CapabilityReport(
        name=zone.name,
        capabilities={"hypervisor": ("kvm",)},
        told=told,
        replica=zone.replica,
        clock=zone.clock,
    )
    zone.zone_parts = replace(zone.zone_parts, info=info)
    zone.parts = replace(zone.parts, zones=zone.zone_parts)
    zone.app = Recorded(build_app(zone.parts), zone.name, parent, record)


async def open_recorded_tree() -> tuple[Net, Record]:
    """Open root over west and east, and deep below east; no zone discloses ranges."""
    net, record = Net(), Record()
    for number, (name, parent) in enumerate(PARENTS.items(), start=1):
        parents_of = (parent,) if parent else ()
        zone = ZoneStack(net, name, number=number, parents=parents_of, auth=ParentAccounts())
        let_out(zone, parent, record)
        await _settle(zone, SECRETS[name])
    await net.zones["east"].adopt(net.zones["deep"])
    await net.zones["root"].adopt(net.zones["west"], net.zones["east"])
    record.clear()
    return net, record


async def _settle(zone: ZoneStack, secret: Canaries) -> None:
    """Give a zone its hosts, a secret aggregate, and a public availability zone."""
    reports = [_report(secret, index) for index in range(secret.hosts)]
    for start in range(0, len(reports), _BATCH):
        await zone.hosts.register(reports[start : start + _BATCH])
    names = frozenset(secret.host_name(index) for index in range(0, secret.hosts, 2))
    secret_one = Aggregate(1, secret.uuid(0xFFF0), secret.aggregate, names)
    open_one = replace(
        secret_one,
        aggregate_id=2,
        uuid=secret.uuid(0xFFF1),
        name=f"{secret.aggregate}-2",
        metadata={"availability_zone": OPEN_ZONE},
    )
    await zone.ledger.commit([(Put(secret_one),), (Put(open_one),)])
    await zone.follower.start()
    for name, memory_mb in FLAVORS.items():
        await zone.flavor(name, ram=memory_mb, vcpus=1, disk=1)


FLAVORS: Final = {"small": 512, "half": 3_900_000, "huge": 20_000_003}
"""The memory of each flavor in MB: "half" takes half a host, and "huge" fits none."""


def _report(secret: Canaries, index: int) -> HostReport:
    uuid, node = secret.uuid(index), secret.node_name(index)
    host = Host(
        uuid=uuid,
        name=secret.host_name(index),
        node=node,
        hypervisor_version=1,
        host_ip=secret.address(index),
        cpu_info={"arch": "x86_64"},
        supported_instances=(("x86_64", "fake", "hvm"),),
    )
    inventories = {name: Inventory(total=total) for name, total in secret.totals.items()}
    return HostReport(host, Provider(uuid=uuid, name=node, inventories=inventories))
