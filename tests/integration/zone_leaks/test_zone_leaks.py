"""No message that zones send in 2,700 random requests, or 10,000 in `make fuzz`, contains a canary.

The secrets that are searched for depend on the listener: a parent and a stranger must learn nothing
about any zone's hosts, a tenant no names and no other zone's numbers, an operator nothing about
other zones' hosts.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from berth.domain.compute.decision import RefusalDetail
from tests.integration.zone_leaks.canaries import Leak, leaks_in, planted
from tests.integration.zone_leaks.random_requests import RandomRequests
from tests.integration.zone_leaks.recorded_tree import (
    OPERATOR,
    PARENTS,
    SECRETS,
    TENANT,
    Record,
    Talk,
    let_out,
    open_recorded_tree,
)

_IS_FUZZ: Final = "BERTH_FUZZ_EXAMPLES" in os.environ
UNTOLD, TOLD_ALSO = (7_500, 2_500) if _IS_FUZZ else (2_000, 700)
"""The numbers of requests sent while no ranges are disclosed, and while some are."""
RANGES: Final = ("free.VCPU", "total.MEMORY_MB")
_RANGES: Final = re.compile(rb'"ranges": ?(\{(?:"[^"]*": ?\[[^\]]*\],? ?)*\})')
# A capacity equals the number of hosts when each has room for one instance; docs/guides/zones.md
# says so.
_TOTAL: Final = re.compile(rb'"total": ?[0-9]+')
_OPAQUE: Final = r"\.(metadata|scheduler_hints|flavor\.extra_specs|image\.properties)\..*"

TOLD: Final[Mapping[str, str]] = {
    # What only zones are told.
    r"\.select_id": "sixteen random bytes, to let go by",
    r"\.weights\[\]\.weight": "how good the offers are: without it there is no plan",
    r"\.weights\[\]\.blob": "sealed, and all of one length",
    r"\.total": "how many instances fit in the zone and below it, which a select tells too",
    r"\.is_partial": "that an answer from below is missing, as in the header of lists",
    r"\.instances\[\]\.(uuid|flaw)": "the parent's own instance, and one of nine words",
    r"\.reservation_id": "the parent's own",
    r"\.kept\[\]": "instances that the parent has named",
    r"\.zone\.name": "what the parent knows the zone by",
    r"\.zone\.capabilities\..*": "as the zone's settings say",
    r"\.zone\.ranges\..*": "of those names alone that the zone's settings let out",
    # What the owner of a server is told of it, wherever it is.
    r"\.server\.(id|name|tenant_id|user_id|description|key_name|user_data|config_drive)": "sent",
    r"\.server\.(metadata|tags|security_groups|trusted_image_certificates).*": "sent",
    r"\.server\.(locked|locked_reason|pinned_availability_zone|accessIPv[46])": "sent",
    r"\.server\.(OS-DCF:diskConfig|OS-EXT-SRV-ATTR:hostname)": "made of what was sent",
    r"\.server\.(flavor|image|image\..*|flavor\..*)": "sent",
    _OPAQUE.replace(r"\.(", r"\.server\.(", 1): "sent",
    r"\.server\.(status|progress|OS-EXT-STS:.*)": "how it is",
    r"\.server\.(created|updated|OS-SRV-USG:.*)": "when it became so",
    r"\.server\.fault\.(code|message|created)": "that it failed, without reasons that count hosts",
    r"\.server\.OS-EXT-AZ:availability_zone": "tenants see names of availability zones",
    r"\.server\.hostId": "a digest by which the owner compares the hosts of its servers",
    r"\.(.+_)?links\[\]\.(href|rel)|\.server\.(.+\.)?links\[\]\.(href|rel)": "of the asked API",
    r"\.(metadata|tags|meta).*": "sent",
    r"\.migrations": "empty for who is no administrator of the zone",
    r"\.output": "what the guest has written",
    r"\.instanceActions?(\[\])?\.(action|instance_uuid|request_id|user_id|project_id)": "sent",
    r"\.instanceActions?(\[\])?\.(start_time|updated_at|message)": "when, and whether it failed",
    r"\.instanceAction\.events\[\]\.(event|start_time|finish_time|result|hostId)": "the same",
    r"\.server\.adminPass": "made for the owner, and told once",
    r"\.decisions\[\]\.(request_id|project_id|amounts\..*)": "what was asked for",
    r"\.decisions\[\]\.(verdict|refusal|attempts|driver)": "how it was decided, without reasons",
    r"\.decisions\[\]\.(decided_at_s|duration_us)": "when, and how long it took",
    r"\.decisions\[\]\.(policy_name|policy_hash|table_version|seed|chosen_among)": "blanked",
    r"\.decisions\[\]\.placements\[\]\.(instance_uuid|assignment)": "the owner's",
    r"\.decisions\[\]\.placements\[\]\.(host|node|provider_uuid|candidates)": "blanked",
    r"\.decisions\[\]\.placements\[\]\.chosen\.(host|node)": "blanked",
    r"\.decisions\[\]\.placements\[\]\.chosen\.score": "how good the offer was",
    # What anybody is told.
    r"\.(version|versions\[\]|versions\.values\[\])\..*": "the versions of the APIs",
    r"\.status": "of the process: that it runs",
}
"""The places in answers that a child may send to its parent, and the reason for each."""
_MAY_TELL: Final = re.compile("|".join(f"(?:{one})" for one in TOLD))


def leaks_of(record: Record) -> list[tuple[Talk, Leak]]:
    """Return each leak with the pair of teller and listener."""
    found: list[tuple[Talk, Leak]] = []
    for talk, said in record.said.items():
        own = SECRETS[talk.teller]
        data, others = (
            _TOTAL.sub(b'"total":""', bytes(said)),
            [one for one in SECRETS.values() if one is not own],
        )
        if talk.listener == OPERATOR:
            data = own.hidden(data)
        if talk.listener == "parent" and talk.teller == "east" and b"deep" in data:
            at = data.find(b"deep")
            found.append((talk, Leak("a zone below", "as it is", data[at - 80 : at + 80])))
        zones = others if talk.listener in {OPERATOR, TENANT} else [*SECRETS.values()]
        found += ((talk, leak) for leak in leaks_in(data, zones))
    return found


def places_of(value: object, place: str = "") -> Iterator[str]:
    """Yield the place of each scalar in a JSON value."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places_of(one, f"{place}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from places_of(one, f"{place}[]")
    else:
        yield place


def _not_blank(document: dict[str, Any]) -> Iterator[str]:
    """Yield the ids of decisions with values that would reveal which servers share a zone."""
    for decision in document.get("decisions", ()):
        values = [decision[name] for name in ("policy_name", "policy_hash", "table_version")]
        for one in decision["placements"]:
            values += [one[name] for name in ("host", "node", "provider_uuid", "candidates")]
            values += [one["chosen"][name] for name in ("host", "node")]
        if any(values) or decision["chosen_among"] != 1 or decision["seed"]:
            yield decision["request_id"]


def unexplained(record: Record) -> set[str]:
    """Return the places in answers of children that `TOLD` does not list."""
    found: set[str] = set()
    for line, status, body in record.answers:
        if not body:
            continue
        document: dict[str, Any] = json.loads(body)
        if status >= 400:
            ((_, fault),) = document.items()
            found |= {f"{line}: {name}" for name in fault.keys() - {"code", "message", "title"}}
            continue
        found |= {f"{line}: decision {name} is not blank" for name in _not_blank(document)}
        for place in places_of(document):
            where = place.replace(".servers[]", ".server")
            if _MAY_TELL.fullmatch(where) is None:
                found.add(where)
    return found


@pytest.mark.timeout(240)
async def test_nothing_leaks() -> None:
    """Random requests disclose no secret to zones or clients, and only ranges that are enabled."""
    net, record = await open_recorded_tree()
    requests = RandomRequests(net, record, seed=20_26)
    await requests.run(UNTOLD)
    _check(record)
    assert {one for said in record.said.values() for one in _RANGES.findall(said)} <= {b"{}"}

    for name, parent in PARENTS.items():
        let_out(net.zones[name], parent, record, RANGES)
    record.clear()
    await requests.run(TOLD_ALSO)
    told = [one for said in record.said.values() for one in _RANGES.findall(bytes(said))]
    assert {name for one in told for name in json.loads(one)} == {*RANGES}
    for talk, said in record.said.items():
        record.said[talk] = bytearray(_RANGES.sub(b"", bytes(said)))
    _check(record)
    assert record.requests == UNTOLD + TOLD_ALSO

    for zone in net.zones.values():
        # The log and the ledger of a zone must not hold other zones' secrets. Numbers of hosts are
        # left out, because a zone's own number may equal another's by chance.
        others = [replace(one, hosts=0) for one in SECRETS.values() if one.word != zone.name]
        log = repr((zone.told.events, zone.told.failures)).encode()
        kept = repr(await zone.ledger.snapshot(0.0)).encode()
        for data in (log, kept):
            assert leaks_in(SECRETS[zone.name].hidden(data), others) == [], zone.name
        await zone.ledger.close()


def _check(record: Record) -> None:
    assert leaks_of(record) == []
    assert sorted(unexplained(record)) == []
    talks = {(talk.teller, talk.listener) for talk in record.said}
    assert {("root", "west"), ("east", "deep"), ("deep", "parent"), ("root", OPERATOR)} <= talks
    statuses = {status for _, status, _ in record.answers}
    assert {200, 202, 400, 401, 403, 404, 409, 503} <= statuses


@pytest.mark.parametrize("listener", ["parent", "account", "west", TENANT, OPERATOR])
def test_a_leak_is_found_wherever_it_is_told(listener: str) -> None:
    """A planted secret is found for every kind of listener, and only the planted one."""
    for what, data in planted(SECRETS["east"]):
        record = Record()
        record.said[Talk("root", listener)] += b'{"servers": []}\n'
        assert leaks_of(record) == []
        record.said[Talk("root", listener)] += data + b"\n"
        assert leaks_of(record), what


@pytest.mark.parametrize(
    "place",
    [
        "berth.api.refusals.detail_for",
        "berth.services.zoning.offers.selection.abroad",
    ],
)
@pytest.mark.timeout(120)
async def test_a_zone_that_leaks_is_found_out(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zone that discloses reasons of refusals, or whose blobs are not sealed, is found."""
    net, record = await open_recorded_tree()
    if place.endswith("abroad"):
        for zone in net.zones.values():
            monkeypatch.setattr(zone.house.seals, "seal", _unsealed)
    else:
        monkeypatch.setattr(place, lambda call: RefusalDetail.FULL)
    await RandomRequests(net, record, seed=7).run(600)
    tellers = {talk.teller for talk, _ in leaks_of(record) if talk.listener == "parent"}
    assert tellers


def _unsealed(terms: object, *, blob_bytes: int) -> bytes:
    return repr(terms).encode().ljust(blob_bytes, b" ")[:blob_bytes]
