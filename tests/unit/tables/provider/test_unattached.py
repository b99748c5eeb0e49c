"""Providers without a chain of parents to a root."""

from berth.domain.inventory.provider import Provider
from berth.tables.provider.unattached import UnattachedProviders


def test_unattached_providers_are_found_by_their_parent() -> None:
    """They are until they are taken or get another parent."""
    waiting = UnattachedProviders()
    waiting.put(Provider("a", "a", "x"))
    waiting.put(Provider("b", "b", "x"))
    assert sorted(waiting.below("x")) == ["a", "b"]
    waiting.put(Provider("a", "a", "y"))
    assert (waiting.below("x"), waiting.below("y")) == (("b",), ("a",))
    assert waiting.take("a") == Provider("a", "a", "y")
    assert (waiting.below("y"), list(waiting.by_uuid)) == ((), ["b"])


def test_an_unknown_provider_is_no_error() -> None:
    """The feed may name a provider that was never delivered."""
    waiting = UnattachedProviders()
    waiting.put_used("a", {"VCPU": 1}, 2)
    assert waiting.take("a") is None
    assert not waiting.by_uuid


def test_what_is_used_is_kept_up() -> None:
    """The generation is updated if it is given."""
    waiting = UnattachedProviders()
    waiting.put(Provider("a", "a", "x", generation=3))
    waiting.put_used("a", {"VCPU": 1}, None)
    assert waiting.by_uuid["a"] == Provider("a", "a", "x", 3, used={"VCPU": 1})
    waiting.put_used("a", {"VCPU": 2}, 4)
    assert waiting.by_uuid["a"] == Provider("a", "a", "x", 4, used={"VCPU": 2})
