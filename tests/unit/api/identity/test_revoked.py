"""The memory of revoked tokens."""

import pytest

from berth.api.auth.tokens import Revoked
from berth.api.errors import HttpError
from tests.unit.api.cloud import NOW_S, FakeClock


def test_none_is_forgotten_for_another() -> None:
    """When the memory is full, expired tokens are dropped; without any, a new one is refused."""
    clock = FakeClock()
    revoked = Revoked(clock, kept_max=2)
    revoked.add("a", int(NOW_S) + 10)
    revoked.add("b", int(NOW_S) + 100)
    with pytest.raises(HttpError) as caught:
        revoked.add("c", int(NOW_S) + 100)
    assert caught.value.status == 503
    assert "a" in revoked
    clock.seconds += 10
    revoked.add("c", int(NOW_S) + 100)
    assert "a" not in revoked
    assert "b" in revoked
    assert "c" in revoked
