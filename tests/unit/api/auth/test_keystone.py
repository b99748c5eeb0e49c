"""Authentication by tokens that a Keystone validates: cache, outages, limits and rights."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from berth.adapters.system import NoMetrics
from berth.api.auth.authentication import Credentials, Identity
from berth.api.auth.circuit_breaker import CircuitBreaker
from berth.api.auth.keystone import KeystoneAuth, TokenCaching
from berth.api.auth.role_mapping import RoleMapping
from berth.api.errors import HttpError
from berth.ports.measures import TOKENS
from berth.ports.telemetry import Measure
from berth.ports.token_validation import (
    TokenServiceBusyError,
    TokenServiceDownError,
    TokenServiceError,
    ValidToken,
)
from tests.unit.api.cloud import NOW_S, FakeClock, Told

ALICE = ValidToken("alice-id", NOW_S + 3600, frozenset({"member", "reader"}), "web-id")
GOOD = "good"
URI = "http://keystone.test/v3"


@dataclass
class FakeKeystone:
    """A Keystone that knows some tokens.

    Attributes:
        tokens: the valid tokens.
        expired: the tokens that have expired recently.
        failure: raised in place of an answer, unless it is None.
        asked: the tokens in the order of the validations.
        gate: validations wait until it is set.
    """

    tokens: dict[str, ValidToken] = field(default_factory=lambda: {"good": ALICE})
    expired: dict[str, ValidToken] = field(default_factory=dict[str, ValidToken])
    failure: Exception | None = None
    asked: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None

    async def validate(self, token: str, *, allow_expired: bool = False) -> ValidToken | None:
        """See `TokenValidator.validate`."""
        self.asked.append(token)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return self.tokens.get(token) or (self.expired.get(token) if allow_expired else None)


class Counts(NoMetrics):
    """Metrics that record the outcomes of tokens."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def add(self, measure: Measure, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """Record the outcome."""
        assert measure is TOKENS
        self.outcomes += labels


class Rig:
    """The mode `keystone` with a fake Keystone and a clock that tests advance."""

    def __init__(self, caching: TokenCaching | None = None) -> None:
        self.clock, self.told, self.counts = FakeClock(), Told(), Counts()
        self.keystone = FakeKeystone()
        self.auth = KeystoneAuth(
            self.keystone,
            RoleMapping(),
            CircuitBreaker(self.clock, self.told, pause_s=5),
            self.clock,
            self.counts,
            key=b"k" * 32,
            uri=URI,
            caching=caching,
        )

    async def ask(
        self, token: str | None = GOOD, address: str = "10.0.0.1", service: str | None = None
    ) -> Identity:
        """Return the identity of a request with a token, and perhaps that of a service."""
        return await self.auth.identify(Credentials(None, token, address, service_token=service))

    async def status(
        self, token: str | None = GOOD, address: str = "10.0.0.1", service: str | None = None
    ) -> int:
        """Return 200 if a token is accepted, else the status of the error."""
        try:
            await self.ask(token, address, service)
        except HttpError as error:
            return error.status
        return 200

    def stop(self) -> None:
        """Make Keystone unavailable."""
        self.keystone.failure = TokenServiceDownError("connection refused")


async def test_a_token_names_its_user_and_project() -> None:
    """User, project and rights are those that Keystone reports."""
    identity = await Rig().ask()
    assert identity == Identity(
        "alice-id", "web-id", is_admin=False, roles=frozenset({"member", "reader"})
    )


async def test_valid_tokens_are_kept_for_the_stated_time() -> None:
    """A validation is used for 60 s; after that a revoked token is refused."""
    rig = Rig()
    await rig.ask()
    del rig.keystone.tokens["good"]
    rig.clock.seconds += 59.9
    await rig.ask()
    assert rig.keystone.asked == ["good"]
    rig.clock.seconds += 0.2
    assert await rig.status() == 401
    assert rig.keystone.asked == ["good", "good"]


async def test_no_token_outlives_its_expiry() -> None:
    """An expired token is refused whether it is fresh, in grace, or new."""
    rig = Rig()
    rig.keystone.tokens["good"] = replace(ALICE, expires_at_s=NOW_S + 10)
    await rig.ask()
    rig.clock.seconds += 10
    assert await rig.status() == 401
    rig.keystone.tokens["late"] = replace(ALICE, expires_at_s=NOW_S + 80)
    await rig.ask("late")
    rig.stop()
    rig.clock.seconds += 65
    await rig.ask("late")
    rig.clock.seconds += 5
    assert await rig.status("late") == 503


async def test_refused_tokens_are_kept_as_well() -> None:
    """A refused token is not validated again for 30 s, and its error names Keystone."""
    rig = Rig()
    with pytest.raises(HttpError) as caught:
        await rig.ask("bad")
    assert caught.value.headers == {"WWW-Authenticate": f'Keystone uri="{URI}"'}
    assert await rig.status("bad") == 401
    assert rig.keystone.asked == ["bad"]
    rig.clock.seconds += 31
    rig.keystone.tokens["bad"] = ALICE
    assert await rig.status("bad") == 200


@pytest.mark.parametrize("token", [None, "", "two words", "tab\t", "ü", "x" * 2049])
async def test_malformed_tokens_do_not_reach_keystone(token: str | None) -> None:
    """A missing or malformed token is refused without a validation."""
    rig = Rig()
    assert await rig.status(token) == 401
    assert rig.keystone.asked == []


async def test_http_basic_is_refused() -> None:
    """A password is no substitute for a token."""
    with pytest.raises(HttpError, match="log in at http"):
        await Rig().auth.identify(Credentials("Basic YWRtaW46YWRtaW4=", None, "10.0.0.1"))


async def test_concurrent_requests_share_one_validation() -> None:
    """Requests with the same token cause one validation, and a cancelled one stops no other."""
    rig = Rig()
    rig.keystone.gate = asyncio.Event()
    requests = [asyncio.create_task(rig.ask()) for _ in range(50)]
    await asyncio.sleep(0)
    requests[0].cancel()
    rig.keystone.gate.set()
    done = await asyncio.gather(*requests, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert {one.user_id for one in done[1:] if isinstance(one, Identity)} == {"alice-id"}
    assert rig.keystone.asked == ["good"]


async def test_during_an_outage_known_tokens_go_on_for_the_grace() -> None:
    """Known tokens work for 300 s more; unknown ones get 503 with the time to wait, not 401."""
    rig = Rig()
    await rig.ask()
    rig.stop()
    rig.clock.seconds += 61
    assert await rig.status() == 200
    with pytest.raises(HttpError, match="Keystone, which validates tokens, does not answer") as e:
        await rig.ask("other")
    assert (e.value.status, e.value.headers) == (503, {"Retry-After": "5"})
    rig.clock.seconds += 298
    assert await rig.status() == 200
    rig.clock.seconds += 2
    assert await rig.status() == 503


async def test_an_outage_is_logged_once_and_tried_once_in_each_pause() -> None:
    """A hundred requests in an outage cause one attempt and one line; its end causes another."""
    rig = Rig()
    rig.stop()
    statuses = [await rig.status(f"t{index}") for index in range(100)]
    assert statuses == [503] * 100
    assert rig.keystone.asked == ["t0"]
    rig.clock.seconds += 5
    assert [await rig.status(f"t{index}") for index in range(100)] == [503] * 100
    assert rig.keystone.asked == ["t0", "t0"]
    assert [name for name, _, _ in rig.told.failures] == ["keystone_unavailable"]
    assert [reading.value for reading in rig.auth.read()] == [0.0]
    assert set(rig.counts.outcomes) == {"unavailable"}
    rig.keystone.failure = None
    rig.clock.seconds += 5
    assert await rig.status() == 200
    assert rig.told.events == ["keystone_available"]
    assert [reading.value for reading in rig.auth.read()] == [1.0]


async def test_requests_do_not_pile_up_behind_a_hanging_keystone() -> None:
    """While one attempt to reach Keystone hangs, other requests are answered at once."""
    rig = Rig()
    await rig.ask()
    rig.stop()
    rig.clock.seconds += 61
    await rig.status("other")
    rig.clock.seconds += 5
    rig.keystone.gate = asyncio.Event()
    probe = asyncio.create_task(rig.status("other"))
    await asyncio.sleep(0)
    assert await rig.status("other") == 503
    assert await rig.status("another") == 503
    assert await rig.status() == 200
    rig.keystone.gate.set()
    assert await probe == 503


async def test_a_token_in_grace_is_validated_in_the_background() -> None:
    """When Keystone is back, a token that was revoked meanwhile is refused soon."""
    rig = Rig()
    await rig.ask()
    rig.stop()
    rig.clock.seconds += 61
    assert await rig.status() == 200
    rig.keystone.failure = None
    rig.keystone.tokens.clear()
    rig.clock.seconds += 5
    assert await rig.status() == 200
    await asyncio.sleep(0)
    assert await rig.status() == 401


async def test_refused_credentials_are_not_tried_again_at_once() -> None:
    """Keystone could lock the account of Berth, so the pause is that of the error."""
    rig = Rig()
    rig.keystone.failure = TokenServiceDownError("refuses the credentials", 30)
    assert await rig.status() == 503
    rig.clock.seconds += 29
    assert await rig.status() == 503
    assert rig.keystone.asked == ["good"]


async def test_one_unusable_answer_is_not_an_outage() -> None:
    """A token for which Keystone fails gets 503 itself; after five in succession all do."""
    rig = Rig()
    rig.keystone.failure = TokenServiceError("status 500")
    assert await rig.status("odd") == 503
    rig.keystone.failure = None
    assert await rig.status() == 200
    assert rig.told.failures == []
    rig.keystone.failure = TokenServiceError("status 500")
    assert [await rig.status(f"odd{index}") for index in range(9)] == [503] * 9
    assert len(rig.keystone.asked) == 1 + 1 + 5
    assert [name for name, _, _ in rig.told.failures] == ["keystone_unavailable"]


async def test_an_unusable_answer_does_not_extend_an_outage() -> None:
    """A client whose token Keystone cannot handle does not take the attempts of all others."""
    rig = Rig()
    rig.stop()
    assert await rig.status() == 503
    rig.clock.seconds += 5
    rig.keystone.failure = TokenServiceError("status 500")
    assert await rig.status("odd") == 503
    rig.keystone.failure = None
    assert await rig.status() == 200


async def test_waiting_for_other_validations_is_no_outage() -> None:
    """Unknown tokens get 503 and may try again in 1 s, known ones go on; nothing counts as down."""
    rig = Rig()
    await rig.ask()
    rig.keystone.failure = TokenServiceBusyError("waited")
    rig.clock.seconds += 61
    for index in range(9):
        with pytest.raises(HttpError, match="Too many tokens") as caught:
            await rig.ask(f"t{index}")
        assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "1"})
        assert await rig.status() == 200
    assert rig.told.failures == []
    assert rig.counts.outcomes == ["accepted"] + ["busy", "grace"] * 9


async def test_renewals_of_known_tokens_are_limited() -> None:
    """Beyond the limit, tokens are used within their grace, and validated again later."""
    rig = Rig(TokenCaching(renewals_max=2))
    rig.keystone.tokens = dict.fromkeys("abc", ALICE)
    for token in "abc":
        await rig.ask(token)
    rig.clock.seconds += 61
    rig.keystone.gate = asyncio.Event()
    renewals = [asyncio.create_task(rig.status(token)) for token in "ab"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del rig.keystone.tokens["c"]
    assert await rig.status("c") == 200
    rig.keystone.gate.set()
    assert await asyncio.gather(*renewals) == [200, 200]
    assert await rig.status("c") == 401


def test_late_failures_do_not_open_the_breaker_again() -> None:
    """A call that began before the latest success, and fails after it, proves no new outage."""
    clock, told = FakeClock(), Told()
    breaker = CircuitBreaker(clock, told, pause_s=5)
    down = TokenServiceDownError("connection refused")
    first, second, third, late = (breaker.admit() or 0 for _ in range(4))
    breaker.fail(down, first)
    assert breaker.admit() is None
    clock.seconds += 5
    probe = breaker.admit()
    assert probe is not None
    breaker.fail(down, second)
    clock.seconds += 5
    assert breaker.admit() is None, "the attempt goes on"
    breaker.succeed()
    breaker.fail(down, third)
    assert not breaker.is_open
    newest = breaker.admit()
    assert newest is not None
    breaker.fail(down, newest)
    breaker.fail(down, late)
    assert [name for name, _, _ in told.failures] == ["keystone_unavailable"] * 2


def test_a_late_failure_does_not_shorten_the_pause() -> None:
    """After refused credentials, an ordinary failure does not bring the next attempt forward."""
    clock = FakeClock()
    breaker = CircuitBreaker(clock, Told(), pause_s=5)
    first, second = breaker.admit(), breaker.admit()
    assert first is not None
    assert second is not None
    breaker.fail(TokenServiceDownError("refuses the credentials", 30), first)
    breaker.fail(TokenServiceDownError("connection refused"), second)
    assert breaker.retry_after_s == 30


async def test_addresses_of_one_ipv6_network_share_the_limit() -> None:
    """A client has as many IPv6 addresses as it likes, but one network of 64 bits."""
    rig = Rig(TokenCaching(waiting_per_address=4))
    rig.keystone.gate = asyncio.Event()
    flood = [
        asyncio.create_task(rig.status(f"f{index}", f"2001:db8::{index}")) for index in range(6)
    ]
    other = asyncio.create_task(rig.status("other", "2001:db8:0:1::1"))
    await asyncio.sleep(0)
    rig.keystone.gate.set()
    assert sorted(await asyncio.gather(*flood)) == [401] * 4 + [503] * 2
    assert await other == 401


async def test_unknown_tokens_are_limited_for_each_address_and_in_all() -> None:
    """A flood of unknown tokens gets 503, and delays neither other addresses nor known tokens."""
    rig = Rig(TokenCaching(waiting_max=6, waiting_per_address=4))
    await rig.ask()
    rig.keystone.gate = asyncio.Event()
    flood = [asyncio.create_task(rig.status(f"f{index}")) for index in range(10)]
    await asyncio.sleep(0)
    rig.clock.seconds += 61
    others = [asyncio.create_task(rig.status(f"o{index}", f"10.0.1.{index}")) for index in range(3)]
    known = asyncio.create_task(rig.status())
    await asyncio.sleep(0)
    rig.keystone.gate.set()
    assert sorted(await asyncio.gather(*flood)) == [401] * 4 + [503] * 6
    assert sorted(await asyncio.gather(*others)) == [401] * 2 + [503]
    assert await known == 200
    assert await rig.status("f9") == 401


async def test_the_cache_is_bounded() -> None:
    """The token that was used least recently is validated again."""
    rig = Rig(TokenCaching(tokens_max=2))
    rig.keystone.tokens = dict.fromkeys("abc", ALICE)
    for token in "abaca":
        await rig.ask(token)
    assert rig.keystone.asked == ["a", "b", "c"]
    await rig.ask("b")
    assert rig.keystone.asked[3:] == ["b"]


async def test_a_fault_in_a_validation_does_not_end_all_attempts() -> None:
    """After an unexpected error, Keystone is asked again after the pause."""
    rig = Rig()

    rig.keystone.failure = RuntimeError()
    with pytest.raises(RuntimeError):
        await rig.ask()
    rig.keystone.failure = None
    assert await rig.status() == 503
    rig.clock.seconds += 5
    assert await rig.status() == 200


@pytest.mark.parametrize(
    ("token", "rights"),
    [
        ({"roles": {"admin", "member", "reader"}}, ("admin", "write", "read")),
        ({"roles": {"admin"}}, ("admin", "write", "read")),
        ({"roles": {"member"}}, ("write", "read")),
        ({"roles": {"reader"}}, ("read",)),
        ({"roles": {"service"}}, ()),
        ({"roles": {"auditor"}}, ()),
        ({"roles": {"admin"}, "project_id": ""}, ()),
        ({"roles": {"admin"}, "project_id": "", "is_system": True}, ()),
    ],
)
def test_roles_give_rights(token: dict[str, object], rights: tuple[str, ...]) -> None:
    """Administrators may change, and members may read; without a scope there are no rights."""
    identity = RoleMapping().identity_of(_token(token))
    given = (identity.is_admin, identity.may_write, identity.may_read)
    assert tuple(
        name for name, one in zip(("admin", "write", "read"), given, strict=True) if one
    ) == (rights)


def test_other_role_names_can_have_the_rights() -> None:
    """The names are settings; a role that lost its meaning does not pass for Placement either."""
    mapping = RoleMapping(admin=frozenset({"operator"}), admin_domains=frozenset({"Ops", "d2"}))
    operator = _token({"roles": {"operator"}, "project_domain": {"d1", "Ops"}})
    found = mapping.identity_of(operator)
    assert found.is_admin
    assert found.roles == frozenset({"admin", "member", "reader", "operator"})
    assert not mapping.identity_of(replace(operator, project_domain=frozenset({"d1"}))).is_admin
    demoted = mapping.identity_of(_token({"roles": {"admin", "x"}, "project_domain": {"Ops"}}))
    assert (demoted.is_admin, demoted.roles) == (False, frozenset({"x"}))


def test_system_scope_can_make_administrators() -> None:
    """With the setting, an admin of the system is an administrator without a project."""
    token = _token({"roles": {"admin"}, "project_id": "", "is_system": True})
    found = RoleMapping(system_admins=True).identity_of(token)
    assert (found.is_admin, found.project_id, found.is_system) == (True, "", True)


def _token(values: dict[str, object]) -> ValidToken:
    sets = {
        name: frozenset(value) if isinstance(value, set) else value
        for name, value in values.items()
    }
    return replace(ALICE, **sets)  # type: ignore[arg-type]


async def test_a_service_may_use_a_token_that_has_expired() -> None:
    """The rights are those of the user, and the token alone is still refused afterwards."""
    rig = Rig()
    rig.keystone.expired["old"] = replace(ALICE, expires_at_s=NOW_S - 3600)
    cinder = ValidToken("cinder-id", NOW_S + 3600, frozenset({"service", "admin"}), "service-id")
    rig.keystone.tokens["cinder"] = cinder
    assert await rig.status("old") == 401
    identity = await rig.ask("old", service="cinder")
    assert (identity.user_id, identity.is_admin) == ("alice-id", False)
    asked = len(rig.keystone.asked)
    assert await rig.status("old", service="cinder") == 200
    assert len(rig.keystone.asked) == asked, "both tokens are cached"
    assert await rig.status("old") == 401
    assert await rig.status("none", service="cinder") == 401
    del rig.keystone.expired["old"]
    rig.clock.seconds += 61
    assert await rig.status("old", service="cinder") == 401, "Keystone's window is over"


async def test_only_a_valid_token_of_a_service_does_so() -> None:
    """The token of a user vouches for nothing, and an invalid one is refused."""
    rig = Rig()
    rig.keystone.expired |= {"old": ALICE, "cinder": replace(ALICE, roles=frozenset({"service"}))}
    assert await rig.status("old", service=GOOD) == 401
    assert await rig.status(GOOD, service=GOOD) == 200
    assert await rig.status("old", service="cinder") == 401, "it has expired itself"
    assert await rig.status(GOOD, service="unknown") == 401
    assert await rig.status(GOOD, service="two words") == 401
