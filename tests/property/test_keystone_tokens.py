"""Laws of tokens that a Keystone validates, over random outages, revocations and requests."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.adapters.system import NoMetrics
from berth.api.auth.authentication import Credentials
from berth.api.auth.circuit_breaker import CircuitBreaker
from berth.api.auth.keystone import KeystoneAuth, TokenCaching
from berth.api.auth.role_mapping import RoleMapping
from berth.api.errors import HttpError
from berth.ports.token_validation import TokenServiceDownError, TokenServiceError, ValidToken
from tests.unit.api.cloud import NOW_S, FakeClock, Told

CACHE_S, GRACE_S, REFUSED_S, LIFE_S = 10, 30, 30, 120
TOKENS = ("a", "b", "never")
CHANGES = st.sampled_from(("", "", "", *TOKENS, "up", "up", "down", "odd"))
"""A token to revoke, a state of Keystone, or nothing."""
Step = tuple[int, str, str]
STEPS = st.tuples(st.sampled_from((0, 1, 4, 9, 11, 21, 32)), CHANGES, st.sampled_from("aaab"))
"""The seconds that pass, a change of Keystone, and the token of the next request."""


@dataclass
class Model:
    """A Keystone, and what is known of its tokens without a cache.

    Attributes:
        clock: the time.
        state: `up`, `down`, or `odd` (unusable answers).
        valid: tokens that are not revoked; all expire `LIFE_S` after the start.
        accepted_s: the time of the last validation that accepted each token.
        refused_s: the time of the last validation that refused each token.
        answers: whether the last validation had an answer.
    """

    clock: FakeClock
    state: str = "up"
    valid: set[str] = field(default_factory=lambda: set(TOKENS[:-1]))
    accepted_s: dict[str, float] = field(default_factory=dict)
    refused_s: dict[str, float] = field(default_factory=dict)
    answers: bool = True

    async def validate(self, token: str, *, allow_expired: bool = False) -> ValidToken | None:
        """See `TokenValidator.validate`."""
        self.answers = self.state == "up"
        if not self.answers:
            kind = TokenServiceDownError if self.state == "down" else TokenServiceError
            raise kind(self.state)
        now_s = self.clock.seconds
        if token not in self.valid or now_s >= NOW_S + LIFE_S:
            self.refused_s[token] = now_s
            return None
        self.accepted_s[token] = now_s
        return ValidToken(token, NOW_S + LIFE_S, frozenset({"member"}), "project")

    def check(self, token: str, status: int) -> None:
        """Assert that a status is possible now."""
        now_s = self.clock.seconds
        since_s = now_s - self.accepted_s.get(token, -1e9)
        if status == 200:
            assert now_s < NOW_S + LIFE_S
            assert since_s < (CACHE_S if self.answers else CACHE_S + GRACE_S)
        elif status == 401:
            assert now_s - self.refused_s.get(token, -1e9) < REFUSED_S
        else:
            assert status == 503
            assert since_s >= CACHE_S or now_s >= NOW_S + LIFE_S


async def _status(auth: KeystoneAuth, token: str) -> int:
    try:
        identity = await auth.identify(Credentials(None, token, "10.0.0.1"))
    except HttpError as error:
        return error.status
    assert identity.user_id == token
    return 200


async def _walk(steps: Sequence[Step]) -> None:
    clock = FakeClock()
    model = Model(clock)
    auth = KeystoneAuth(
        model,
        RoleMapping(),
        CircuitBreaker(clock, Told(), pause_s=5),
        clock,
        NoMetrics(),
        key=b"k" * 32,
        uri="http://keystone.test/v3",
        caching=TokenCaching(fresh_s=CACHE_S, grace_s=GRACE_S),
    )
    for seconds, change, token in steps:
        clock.seconds += seconds
        if change in {"up", "down", "odd"}:
            model.state = change
        else:
            model.valid.discard(change)
        for asked in (token, "never"):
            model.check(asked, await _status(auth, asked))
        await asyncio.sleep(0)
    # Whatever has happened, an answering Keystone decides within the pause and the cache.
    model.state = "up"
    clock.seconds += max(CACHE_S, REFUSED_S) + 5
    await _status(auth, "probe")
    for token in TOKENS:
        is_valid = token in model.valid and clock.seconds < NOW_S + LIFE_S
        assert await _status(auth, token) == (200 if is_valid else 401)


@settings(max_examples=max(200, settings().max_examples))
@given(st.lists(STEPS, min_size=4, max_size=16))
def test_no_token_works_longer_than_stated(steps: list[Step]) -> None:
    """Validations are used for the cache time, in outages for the grace, never after the expiry.

    A fresh token never gets 503, an unknown one gets 401 only after a refusal by Keystone, and
    after an outage Keystone's answers are in force again.
    """
    asyncio.run(_walk(steps))
