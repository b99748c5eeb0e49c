"""What a host that an attacker controls can do to the cloud; SECURITY.md has the table."""

import os
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import httpx
import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from berth.adapters.gateway import wire
from berth.adapters.gateway.host_key import HostKeyFile
from berth.adapters.gateway.session import DENIED, FLOODED, MALFORMED, REPLACED
from berth.domain.compute.host import Host
from berth.domain.compute.step import OTHER_HOST, StepOutcome, StepResult
from berth.domain.errors import BerthError, ConflictError, InvalidInputError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import VCPU, Inventory
from berth.ports.gateway import HostNote
from berth.ports.virt import ChildReport, HostReport, Power
from berth.services.tracking.messages import FORMAT, UPDATE, InstancesUpdated, MessageHead
from tests.e2e.hosts.compromised_host import CompromisedHost
from tests.e2e.hosts.separate_cloud import HOSTS, SeparateCloud, separate_cloud

pytestmark = pytest.mark.timeout(600)

EVIL: Final = HOSTS[2]
_TOO_BIG = 1009
_STRANGER = "11111111-2222-4333-8444-555555555555"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Generator[SeparateCloud]:
    """Yield a cloud with a host that belongs to an attacker; at the end the audit finds nothing."""
    folder = tmp_path_factory.mktemp("compromised")
    with separate_cloud(folder, f"sqlite:///{folder / 'berth.sqlite'}") as cloud:
        cloud.kill(EVIL)
        cloud.wait_until(lambda: EVIL not in cloud.hosts_up(), "the agent of the host is gone")
        yield cloud
        cloud.wait_until(lambda: not cloud.audit(), "the audit finds nothing")


@pytest.fixture(scope="module")
def victim(cloud: SeparateCloud) -> dict[str, Any]:
    """Return a server on an honest host."""
    assert cloud.create("victim") != EVIL
    return cloud.server("victim")


@pytest.fixture
def evil(cloud: SeparateCloud) -> Generator[CompromisedHost]:
    """Yield a session of the compromised host."""
    session = CompromisedHost(cloud, EVIL)
    session.expect(lambda one: isinstance(one, wire.Welcome))
    yield session
    session.close()


@pytest.fixture(autouse=True)
def unharmed(cloud: SeparateCloud, victim: dict[str, Any]) -> Generator[None]:
    """Check that the server of others, and the capacity of other hosts, are as before."""
    honest = HOSTS[:2]
    before = [cloud.ask("host", "show", host)["inventories"] for host in honest]
    yield
    assert cloud.server("victim") == victim
    assert [cloud.ask("host", "show", host)["inventories"] for host in honest] == before
    assert set(honest) <= set(cloud.hosts_up())


def report_of(cloud: SeparateCloud, host: str = EVIL) -> HostReport:
    """Return a report of a host as it is registered."""
    shown = cloud.ask("host", "show", host)
    uuid = shown["uuid"]
    stock = {
        name: Inventory(one["total"], one["reserved"]) for name, one in shown["inventories"].items()
    }
    return HostReport(Host(uuid, host, host), Provider(uuid, host, inventories=stock))


def test_instances_of_others_are_out_of_reach(
    cloud: SeparateCloud, evil: CompromisedHost, victim: dict[str, Any]
) -> None:
    """A host neither sees nor changes an instance of another host, nor a move between others."""
    uuid = victim["id"]
    assert evil.call("instances") == ()
    assert evil.first_view().instances == ()
    standing = evil.call("standing", uuid)
    assert (standing.instance, standing.migration, standing.where) == (None, None, OTHER_HOST)
    for revision in range(12):
        for result in (StepResult.DONE, StepResult.GUEST_GONE, StepResult.STORED):
            told = evil.call("conclude", StepOutcome(uuid, revision, result))
            assert not told.is_recorded
            assert told.standing.instance is None
        for power in (None, *Power):
            assert evil.call("report_power", uuid, revision, power) is None
        assert not evil.call("report_crashes", uuid, revision, 5, 60.0)
    cloud.operate("server", "live-migrate", "victim", "--wait")
    cloud.operate(
        "server", "live-migrate", "victim", "--host", victim["OS-EXT-SRV-ATTR:host"], "--wait"
    )
    moves = cloud.ask("migration", "list")["migrations"]
    assert moves
    for move in moves:
        assert evil.call("move", move["uuid"]) is None
        assert evil.call("leftover_move", move["uuid"]) is None
        evil.call("report_cleared", move["uuid"])
    victim.update(cloud.server("victim"))


def test_only_its_own_report_is_accepted(cloud: SeparateCloud, evil: CompromisedHost) -> None:
    """Hosts, providers, nodes and names of others, and what operators set, cannot be claimed."""
    own, other = report_of(cloud), report_of(cloud, HOSTS[0])
    assert evil.call("register", [own]) is None
    uuid = other.host.uuid
    forged = [
        other,
        replace(own, host=replace(own.host, uuid=uuid), provider=replace(own.provider, uuid=uuid)),
        replace(own, provider=replace(own.provider, uuid=uuid)),
        replace(own, provider=replace(own.provider, name=HOSTS[0])),
        replace(own, host=replace(own.host, node=HOSTS[0])),
        replace(own, provider=replace(own.provider, parent_uuid=uuid)),
        replace(own, provider=replace(own.provider, aggregates=(_STRANGER,))),
        replace(
            own, provider=replace(own.provider, traits=frozenset({"MISC_SHARES_VIA_AGGREGATE"}))
        ),
        replace(own, children=tuple(ChildReport(f"{n}") for n in range(1_025))),
        replace(own, children=(ChildReport("a", parent="b"), ChildReport("b", parent="a"))),
        replace(own, host=replace(own.host, stats={f"{n}": "x" for n in range(1_001)})),
        replace(own, host=replace(own.host, cpu_info={"x": ["y"] * 20_000})),
    ]
    for report in forged:
        for method, args in (("register", ([report],)), ("report", (report,))):
            with pytest.raises((InvalidInputError, ConflictError)):
                evil.call(method, *args)
    for total in (-1, 2**63, 1.5, "many"):
        document = msgspec.to_builtins(own)
        document["provider"]["inventories"][VCPU]["total"] = total
        with pytest.raises(InvalidInputError):
            evil.call_raw("register", wire.raw([[document]]))


def test_notes_and_messages_are_those_of_its_own_host(
    cloud: SeparateCloud, evil: CompromisedHost, victim: dict[str, Any]
) -> None:
    """What a host says about itself is recorded for it alone, and within limits."""
    notes = [HostNote(f"made_up_{n}", victim["id"], "x") for n in range(2_000)]
    evil.call("save_notes", notes, False)
    with pytest.raises(InvalidInputError):
        evil.call_raw("save_notes", wire.raw([[["c", "k", "x" * 100_000, False]], False]))
    metrics = cloud.metrics()
    assert "made_up" not in metrics
    assert 'berth_host_audit_findings_total{code="other"' in metrics
    verdict = evil.call("judge_leftover", _STRANGER, "")
    assert verdict.reason == "the instance is unknown; inspect them"
    assert evil.call("report_image_cleared", _STRANGER) is None
    head = MessageHead(FORMAT, HOSTS[0], "evil", 1, 1, 0, b"")
    evil.send(wire.Cast(UPDATE.name, wire.raw(InstancesUpdated(head, ()))))
    assert evil.close_code() == MALFORMED


@pytest.mark.parametrize("method", ["nothing", "add_key", "__init__", "register"])
def test_a_call_that_makes_no_sense_is_refused(evil: CompromisedHost, method: str) -> None:
    """Unknown methods and arguments of wrong types are answered with an error."""
    for args in ([], [None], [["x"]], [{"a": 1}], "x", [1, 2, 3]):
        with pytest.raises(BerthError):
            evil.call_raw(method, wire.raw(args))


def test_a_session_goes_in_order(cloud: SeparateCloud) -> None:
    """Frames before the proof, a second proof and a second watch end the session."""
    for first in (wire.Beat(), wire.Watch(), wire.Call(1, "instances", wire.raw(()))):
        early = CompromisedHost(cloud, EVIL, is_silent=True)
        early.send(first)
        assert early.close_code() == MALFORMED
    for again in ("proof", "watch"):
        twice = CompromisedHost(cloud, EVIL)
        twice.first_view()
        twice.send(twice.proof if again == "proof" else wire.Watch())
        assert twice.close_code() == MALFORMED


def test_malformed_frames_end_the_session(cloud: SeparateCloud) -> None:
    """Garbage, deep nesting, text and oversized frames cost the session, and nothing else."""
    deep = b"\x94\x04\x01\xa8standing" + b"\x91" * 500_000
    for data, code in (
        (os.urandom(100), MALFORMED),
        (b"\x91" * 1_000_000, MALFORMED),
        (deep, MALFORMED),
        (b"\0" * (wire.AGENT_FRAME_BYTES_MAX + 1), _TOO_BIG),
    ):
        session = CompromisedHost(cloud, EVIL)
        session.expect(lambda one: isinstance(one, wire.Welcome))
        session.send(data)
        assert session.close_code() == code
    texting = CompromisedHost(cloud, EVIL)
    texting.connection.send("text")
    assert texting.close_code() == MALFORMED


def test_half_a_frame_costs_a_stranger_its_connection(cloud: SeparateCloud) -> None:
    """A stranger has ten seconds and 16 KiB to prove who it is."""
    slow = CompromisedHost(cloud, EVIL, is_silent=True)
    slow.connection.socket.sendall(b"\x82\xfe")  # the first bytes of a frame
    large = CompromisedHost(cloud, EVIL, is_silent=True)
    large.send(b"\0" * 5_000)
    assert large.close_code() in {_TOO_BIG, MALFORMED}
    began_s = time.monotonic()
    assert slow.close_code() == MALFORMED
    assert time.monotonic() - began_s < 60.0


def test_a_host_cannot_be_another(cloud: SeparateCloud) -> None:
    """A proof for another host, and one that was recorded in an earlier session, are refused."""
    assert CompromisedHost(cloud, EVIL, claims=HOSTS[0]).close_code() == DENIED
    assert CompromisedHost(cloud, EVIL, claims="nobody").close_code() == DENIED
    first = CompromisedHost(cloud, EVIL)
    first.expect(lambda one: isinstance(one, wire.Welcome))
    first.close()
    assert CompromisedHost(cloud, EVIL, proof=first.proof).close_code() == DENIED


def test_two_sessions_of_one_host(cloud: SeparateCloud) -> None:
    """The newer session replaces the older one."""
    first = CompromisedHost(cloud, EVIL)
    first.expect(lambda one: isinstance(one, wire.Welcome))
    second = CompromisedHost(cloud, EVIL)
    assert second.call("instances") == ()
    assert first.close_code() == REPLACED
    second.close()


def test_answers_to_nobody_are_ignored(cloud: SeparateCloud, evil: CompromisedHost) -> None:
    """A host cannot answer for the console of another one, whatever number it guesses."""
    for number in range(200):
        evil.send(wire.Answer(number, None, "forged"))
    cloud.wait_until(lambda: cloud.has_console("victim"), "the console of the server is shown")
    assert evil.call("instances") == ()


def test_tokens_are_good_once_and_for_one_host(cloud: SeparateCloud) -> None:
    """Used, guessed, expired and foreign tokens give no key, and the host's own key stays valid."""
    public = HostKeyFile.create(cloud.folder / "fourth.key").public_key
    token = cloud.operate("host", "enroll", "fourth").strip()

    def redeem(host: str, text: str) -> int:
        with httpx.Client(verify=cloud.tls(), trust_env=False) as http:
            answer = http.put(
                f"{cloud.url}/berth/v1/host-keys/{host}",
                json={"token": text, "public_key": public},
            )
        return answer.status_code

    assert redeem(HOSTS[0], token) == httpx.codes.FORBIDDEN
    for guess in ("", "x", token[:-1], token + "x", "A" * 43):
        assert redeem("fourth", guess) in {httpx.codes.FORBIDDEN, httpx.codes.BAD_REQUEST}
    assert httpx.codes.is_success(redeem("fourth", token))
    assert redeem("fourth", token) == httpx.codes.FORBIDDEN
    cloud.operate("host", "revoke-key", "fourth")
    assert cloud.keys_of(HOSTS[0])


def test_floods_do_not_stop_others(cloud: SeparateCloud) -> None:
    """While a host floods with frames, calls, pings and connections, others work on."""
    ends = threading.Event()
    codes: list[int] = []

    def flood(kind: str) -> None:
        while not ends.is_set():
            try:
                session = CompromisedHost(cloud, EVIL)
                _flood(session, kind)
                codes.append(session.close_code())
            except (ConnectionClosed, OSError, TimeoutError, AssertionError):
                continue

    floods = [
        threading.Thread(target=flood, args=(kind,), daemon=True)
        for kind in ("beats", "calls", "pings", "leave")
    ]
    for one in floods:
        one.start()
    try:
        for number in range(3):
            cloud.create(f"meanwhile-{number}")
            cloud.operate("server", "delete", f"meanwhile-{number}", "--wait")
        cloud.wait_until(lambda: cloud.has_console("victim"), "the console of the server is shown")
    finally:
        ends.set()
        for one in floods:
            one.join(60)
    assert {FLOODED, REPLACED} & set(codes)


def test_a_flood_ends_the_session(cloud: SeparateCloud) -> None:
    """A host that sends more than its share is cut off."""
    for kind in ("beats", "calls", "pings"):
        session = CompromisedHost(cloud, EVIL)
        session.expect(lambda one: isinstance(one, wire.Welcome))
        with suppress(ConnectionClosed):
            _flood(session, kind)
        assert session.close_code() == FLOODED


def _flood(session: CompromisedHost, kind: str) -> None:
    """Send thousands of frames without waiting."""
    for number in range(4_000):
        if kind == "beats":
            session.send(wire.Beat(wants_echo=True))
        elif kind == "calls":
            session.send(wire.Call(number, "instances", wire.raw(())))
        elif kind == "pings":
            session.connection.ping()
        else:
            session.close()
            return


def test_a_revoked_key_is_worth_nothing(cloud: SeparateCloud) -> None:
    """A revocation ends the session within seconds, and the key opens none afterwards."""
    session = CompromisedHost(cloud, EVIL)
    assert session.call("instances") == ()
    cloud.operate("host", "revoke-key", EVIL)
    assert session.close_code() == DENIED
    assert CompromisedHost(cloud, EVIL).close_code() == DENIED
    cloud.enroll(EVIL)
    again = CompromisedHost(cloud, EVIL)
    assert again.call("instances") == ()
    again.close()
