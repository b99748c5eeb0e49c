"""JSON Schemas of state files, request files and notifications, generated from their types."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from berth.adapters.bus.message_codec import NotificationBody
from berth.cli.request_file import RequestDocument
from berth.cli.state_file import FORMAT
from berth.domain.compute.request import COUNT_MAX
from berth.domain.inventory.resources import AMOUNT_MAX, RATIO_BOUND
from berth.domain.ledger.change import Snapshot
from berth.services.telemetry.notification_payloads import (
    VERSION,
    HostData,
    InstanceData,
    Payload,
    RefusedData,
    SelectedData,
    SelectionData,
    ServiceData,
)

Schema = dict[str, Any]

_PAYLOADS: Mapping[str, Any] = {
    "Host": Payload[HostData],
    "Instance": Payload[InstanceData],
    "SelectDestinationsEnd": Payload[SelectedData],
    "SelectDestinationsError": Payload[RefusedData],
    "SelectDestinationsStart": Payload[SelectionData],
    "Service": Payload[ServiceData],
}

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_AMOUNT: Schema = {"minimum": 0, "maximum": AMOUNT_MAX}
_UNIT: Schema = {"minimum": 1, "maximum": AMOUNT_MAX}
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb")
# Limits that the types check in `__post_init__`, which msgspec cannot see.
_LIMITS: Mapping[str, Mapping[str, Schema]] = {
    "Flavor": dict.fromkeys(_SIZES, _AMOUNT),
    "Inventory": {
        "total": _AMOUNT,
        "reserved": _AMOUNT,
        "max_unit": _AMOUNT,
        "min_unit": _UNIT,
        "step_size": _UNIT,
        "allocation_ratio": {"minimum": -RATIO_BOUND, "maximum": RATIO_BOUND},
    },
    "MemoryPages": {"size_kb": _UNIT, "total": _AMOUNT, "reserved": _AMOUNT},
    "NumaCell": {"cell_id": _AMOUNT, "memory_mb": _AMOUNT},
    "PciPool": {"count": _AMOUNT},
    "Snapshot": {"format": {"const": FORMAT}},
    "Provider": {"used": {"additionalProperties": {"type": "integer", **_AMOUNT}}},
}


def state_schema() -> Schema:
    """Return the schema of a state file."""
    return _schema(Snapshot, "Berth state file")


def request_schema() -> Schema:
    """Return the schema of a request file."""
    schema = _schema(RequestDocument, "Berth request file")
    definitions = schema["$defs"]
    count = {"type": "integer", "minimum": 1, "maximum": COUNT_MAX}
    properties = definitions["RequestDocument"]["properties"]
    # `read_request` checks these limits itself, so the types do not contain them.
    properties["count"]["anyOf"] = [count, {"type": "null"}]
    uuids = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    uuids |= {"minItems": 1, "maxItems": COUNT_MAX}
    properties["instance_uuids"]["anyOf"] = [uuids, {"type": "null"}]
    # An inline flavor gets its id and name from `read_request`.
    definitions["Flavor"]["required"] = ["vcpus", "memory_mb"]
    return schema


def notification_schema() -> Schema:
    """Return the schema of a notification; it allows unknown fields, which newer versions add."""
    (body, *payloads), definitions = msgspec.json.schema_components(
        (NotificationBody, *_PAYLOADS.values()),
        schema_hook=_anything,
        ref_template="#/$defs/{name}",
    )
    for definition in definitions.values():
        if "description" in definition:
            definition["description"] = _one_line(definition["description"])
    for name, payload in zip(_PAYLOADS, payloads, strict=True):
        fields = definitions[payload["$ref"].rpartition("/")[2]]["properties"]
        fields["name"] = {"const": name}
        fields["version"] = {"type": "string", "pattern": rf"^{VERSION.partition('.')[0]}\."}
    definitions["NotificationBody"]["properties"]["payload"] = {"oneOf": [*payloads]}
    return {"$schema": _DIALECT, "title": "Berth notification", **body, "$defs": definitions}


def rendered(schema: Schema) -> str:
    """Return a schema as the text of its file in the documentation."""
    return (
        msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=2).decode() + "\n"
    )


def _schema(kind: type, title: str) -> Schema:
    schema = msgspec.json.schema(kind, schema_hook=_anything)
    for name, definition in schema["$defs"].items():
        if definition.get("type") == "object":
            # Only objects have fields; enums are definitions without any. Readers refuse unknown
            # fields.
            definition["additionalProperties"] = False
            definition["description"] = _one_line(definition.get("description", ""))
        for field, limits in _LIMITS.get(name, {}).items():
            definition["properties"][field] |= limits
    return {"$schema": _DIALECT, "title": title, **schema}


def _anything(kind: type) -> Schema:
    if kind is object:
        return {"description": "Any JSON value."}
    raise NotImplementedError(f"{kind} has no schema")


def _one_line(description: str) -> str:
    return " ".join(description.partition("\n\n")[0].split())


def schemas() -> Iterator[tuple[str, Schema]]:
    """Yield the file name and the schema of each document."""
    yield "state.schema.json", state_schema()
    yield "request.schema.json", request_schema()
    yield "notification.schema.json", notification_schema()
