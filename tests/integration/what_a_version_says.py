"""Prints what a version writes to the ledger and the bus as JSON, to test later versions.

Run `PYTHONPATH=SOURCES python tests/integration/what_a_version_says.py` with the sources of a
version. The output of the previous version is kept in `said_before.json`.
"""

import base64
import json
import sys
from collections.abc import Iterator
from typing import Any

from berth import __version__
from berth.adapters.bus.message_codec import MessageCodec
from berth.adapters.ledger.engine.codec import encode_event, event_kind
from berth.adapters.ledger.schema_migration import SCHEMA
from berth.domain.ledger.change import Event, HostsAlive, RecordRemoved, Usage
from berth.domain.ledger.record import Kind
from berth.ports.bus import Command, Context
from berth.services.requests.orders import PLACE, PlaceOrder
from berth.services.servers.consoles import CONSOLE, ConsoleAsked
from berth.testing import builders as b

_BODY_BYTES_MAX = 1_000_000


def _events() -> Iterator[Event]:
    yield from (b.make_host(1), b.make_service(1), b.make_provider(1), b.make_aggregate(1))
    yield from (b.make_server_group(1), b.make_flavor(1), b.make_instance(1, host="host-1"))
    yield from (b.make_pending_request(1), b.make_decision(1), b.make_consumer(1))
    yield from (b.make_migration(1), b.make_action(1))
    yield from (
        Usage("provider", {"VCPU": 1}, 2),
        HostsAlive(("host-1",), 1.5),
        RecordRemoved(Kind.HOST, "h"),
    )


def _letters() -> Iterator[tuple[Command[Any, Any], object]]:
    order = PlaceOrder(b.make_request(1), (b.make_instance(1),), accepted=True)
    yield PLACE, order
    yield CONSOLE, ConsoleAsked(b.make_uuid("instance", 1), 10)


def say() -> dict[str, Any]:
    """Return this version's records, commands and an answer, encoded."""
    wire = MessageCodec(_BODY_BYTES_MAX)
    context = Context("req-1", 1000.0, None)
    letters = [
        (f"{command.topic}.{command.name}", wire.command(command, args, context))
        for command, args in _letters()
    ]
    return {
        "version": __version__,
        "schema": SCHEMA,
        "events": [[event_kind(event), json.loads(encode_event(event))] for event in _events()],
        "letters": [[name, base64.b64encode(body).decode()] for name, body in letters],
        "answer": base64.b64encode(wire.reply(b.make_decision(1))).decode(),
    }


if __name__ == "__main__":
    json.dump(say(), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
