"""The entries that requests make in the audit log, and the log's routes."""

import asyncio
import json
import time
from collections.abc import Iterator

import pytest
from starlette.types import Scope

from berth.adapters.system import SystemClock
from berth.api.app import build_app
from berth.api.auth.authentication import Identity
from berth.api.callers import note_caller
from berth.api.change_audit import AuditedOperation, ChangeAudit, note_body, note_operation
from berth.api.observed import Observed
from berth.domain.ledger.audit_trail import NO_ENTRIES, AuditEntry, ChainCheck, Link, chain, head_of
from berth.domain.ledger.write import Add
from berth.testing.virtual_time import VirtualClock, run_virtually
from tests.unit.api.cloud import NOW_S, Stack

PATH = "/berth/v1/audit-log"


@pytest.fixture
def noted(stack: Stack) -> list[AuditEntry]:
    """Return the list that receives the entries of the stack's API."""
    found: list[AuditEntry] = []
    audit = ChangeAudit(found.append, stack.clock, "api@here")
    stack.app = Observed(build_app(stack.parts), stack.clock, [audit])
    return found


@pytest.mark.usefixtures("noted")
class TestEntries:
    """The entries of requests."""

    async def test_a_change_is_one_entry(self, stack: Stack, noted: list[AuditEntry]) -> None:
        """The entry has caller, operation, targets, status, request and time."""
        answer = await stack.ask("DELETE", "/v2.1/servers/none", token="ann:lab")
        assert noted == [
            AuditEntry(
                int(NOW_S * 1000),
                "DELETE /v2.1/servers/{server_id}",
                user_id="ann",
                project_id="lab",
                address="127.0.0.1",
                process="api@here",
                request_id=answer.headers["x-openstack-request-id"],
                status=404,
                targets={"server_id": "none"},
            )
        ]

    async def test_reads_are_no_changes(self, stack: Stack, noted: list[AuditEntry]) -> None:
        """Neither reads nor dry runs make entries."""
        await stack.ask("GET", "/v2.1/flavors")
        await stack.ask("POST", "/berth/v1/decide", {"server": {}})
        assert noted == []

    async def test_a_new_object_is_named(self, stack: Stack, noted: list[AuditEntry]) -> None:
        """The entry of a create names what was created, of servers too."""
        await stack.start()
        await stack.flavor("tiny")
        assert noted[-1].targets == {"created": "tiny"}
        made = await stack.server()
        assert noted[-1].operation == "POST /v2.1/servers"
        assert noted[-1].targets == {"created": made}

    async def test_bodies_of_administrators_are_kept(
        self, stack: Stack, noted: list[AuditEntry]
    ) -> None:
        """What an administrator changes is in the details, without secrets."""
        quota = {"quota_set": {"cores": 7}}
        await stack.ask("PUT", "/v2.1/os-quota-sets/lab", quota)
        assert noted[-1].details == {"body": '{"quota_set":{"cores":7}}'}
        zone = {"zone": {"name": "west", "api_url": "http://u:hunter2@west", "password": "hunter2"}}
        await stack.ask("POST", "/zones", zone)
        assert "hunter2" not in str(noted)
        assert '"password":"***"' in noted[-1].details["body"]

    async def test_bodies_of_tenants_are_not_kept(
        self, stack: Stack, noted: list[AuditEntry]
    ) -> None:
        """Of a tenant's request, only the name of an action is kept."""
        body = {"server": {"name": "n", "user_data": "aHVudGVyMg==", "flavorRef": "x"}}
        await stack.ask("POST", "/v2.1/servers", body, token="ann:lab")
        assert noted[-1].details == {}
        await stack.ask("POST", "/v2.1/servers/x/action", {"rebuild": {"a": 1}}, token="ann:lab")
        assert noted[-1].details == {"action": "rebuild"}
        await stack.ask("POST", "/v2.1/servers/x/action", b"[1", token="ann:lab")
        assert noted[-1].details == {}

    async def test_what_is_forbidden_is_recorded(
        self, stack: Stack, noted: list[AuditEntry]
    ) -> None:
        """An attempt without the rights is an entry with status 403."""
        await stack.ask("POST", "/v2.1/flavors", {"flavor": {}}, token="ann:lab")
        assert [(one.user_id, one.status, one.is_admin) for one in noted] == [("ann", 403, False)]

    async def test_callers_without_identity_make_no_entries(
        self, stack: Stack, noted: list[AuditEntry]
    ) -> None:
        """A request without a valid caller changes nothing and makes no entry."""
        assert (await stack.ask("DELETE", "/v2.1/servers/x", token=":")).status == 401
        assert noted == []


def ended(audit: ChangeAudit, status: int, *, user: str = "ann", is_admin: bool = False) -> None:
    """Tell the audit of a request to delete a server."""
    scope: Scope = {"type": "http", "method": "DELETE", "path": "/x", "headers": []}
    note_caller(scope, Identity(user, "lab", is_admin))
    audit.ended(scope, status, 0)


def test_repeated_refusals_of_a_tenant_do_not_fill_the_log() -> None:
    """Thirty a minute are recorded; the next entry of the user counts those that were left out."""
    run_virtually(_repeat_refusals)


async def _repeat_refusals() -> None:
    noted: list[AuditEntry] = []
    audit = ChangeAudit(noted.append, VirtualClock(), "api@here")
    for _ in range(100):
        ended(audit, 409)
    assert len(noted) == 30
    ended(audit, 409, user="bob")
    ended(audit, 409, user="root", is_admin=True)
    assert [one.user_id for one in noted[30:]] == ["bob", "root"]
    ended(audit, 204)
    assert noted[-1].details == {"refusals_left_out": "70"}
    ended(audit, 204)
    assert noted[-1].details == {}
    ended(audit, 409)
    await asyncio.sleep(61.0)
    ended(audit, 409)
    assert noted[-1].details == {"refusals_left_out": "1"}


def test_masking_ends_when_there_is_enough_text() -> None:
    """A large body is neither masked as a whole nor cut before its accounts are hidden."""
    noted: list[AuditEntry] = []
    audit = ChangeAudit(noted.append, SystemClock(), "api@here")
    scope: Scope = {"type": "http", "method": "PUT", "path": "/x", "headers": []}
    note_caller(scope, Identity("root", "lab", is_admin=True))
    note_operation(scope, AuditedOperation(is_audited=True, is_public=False, is_for_admins=True))
    url = "http://" + "u" * 9_000 + ":hunter2@host"
    items = json.dumps({"a_url": url, "list": [{"password": "hunter2"}] * 100_000})
    note_body(scope, items.encode())
    began_s = time.process_time()
    audit.ended(scope, 200, 0)
    assert time.process_time() - began_s < 0.2
    assert len(noted[0].details["body"]) <= 2_000
    assert "hunter2" not in noted[0].details["body"]
    assert "http://***@host" in noted[0].details["body"]


def links_of(entries: list[dict[str, object]]) -> Iterator[Link]:
    """Yield entries of the API as `ChainCheck` takes them."""
    for one in entries:
        number, previous, found = one.pop("number"), one.pop("previous"), one.pop("hash")
        assert isinstance(number, int)
        yield Link(number, str(previous), str(found), one)


async def test_the_log_is_listed_and_shown(stack: Stack) -> None:
    """Administrators read the log page by page, and check its hashes themselves."""
    head = NO_ENTRIES
    for number in range(5):
        entries = [AuditEntry(number, f"op-{name}", user_id=name) for name in "ab"]
        block = chain(head, entries)
        head = head_of(block)
        await stack.parts.ledger.commit([(Add(block),)])
    newest = (await stack.ask("GET", f"{PATH}?limit=3")).body
    assert [one["number"] for one in newest["entries"]] == [10, 9, 8]
    assert newest["head"] == {"number": 10, "hash": head.hash}
    more = (await stack.ask("GET", f"{PATH}?limit=3&before={newest['marker']}")).body
    assert [one["number"] for one in more["entries"]] == [7, 6, 5]
    of_a = (await stack.ask("GET", f"{PATH}?user_id=a&after=4")).body
    assert [one["number"] for one in of_a["entries"]] == [5, 7, 9]
    assert of_a["marker"] is None
    whole = (await stack.ask("GET", f"{PATH}?after=0")).body["entries"]
    check = ChainCheck()
    for one in links_of(whole):
        check.add(one)
    assert (check.faults(), check.head) == ([], head)
    shown = (await stack.ask("GET", f"{PATH}/10")).body
    assert (shown["operation"], shown["hash"]) == ("op-b", head.hash)


async def test_an_empty_log_has_a_head(stack: Stack) -> None:
    """Without entries, the head has the number 0."""
    answer = await stack.ask("GET", PATH)
    assert answer.body == {"entries": [], "marker": None, "head": {"number": 0, "hash": "0" * 64}}


@pytest.mark.parametrize("number", ["11", "0", "x", "9" * 16])
async def test_an_unknown_entry_is_not_found(stack: Stack, number: str) -> None:
    """Numbers without an entry get 404."""
    assert (await stack.ask("GET", f"{PATH}/{number}")).status == 404


async def test_the_log_is_for_administrators(stack: Stack) -> None:
    """Tenants may not read the log, and before and after exclude each other."""
    assert (await stack.ask("GET", PATH, token="ann:lab")).status == 403
    assert (await stack.ask("GET", f"{PATH}/1", token="ann:lab")).status == 403
    assert (await stack.ask("GET", f"{PATH}?before=1&after=1")).status == 400
