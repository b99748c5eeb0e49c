"""Tests for providers whose chain of parents leads to no known root."""

from berth.domain.inventory.provider import Provider
from berth.tables.provider.unattached import UnattachedProviders


def test_unattached_providers_are_found_by_their_parent() -> None:
    """Unattached providers are found by parent until they are taken or change their parent."""
    waiting = UnattachedProviders()
    waiting.put(Provider("a", "a", "x"))
    waiting.put(Provider("b", "b", "x"))
    assert sorted(waiting.below("x")) == ["a", "b"]
    waiting.put(Provider("a", "a", "y"))
    assert (waiting.below("x"), waiting.below("y")) == (("b",), ("a",))
    assert waiting.take("a") == Provider("a", "a", "y")
    assert (waiting.below("y"), list(waiting.by_uuid)) == ((), ["b"])


def test_an_unknown_provider_is_no_error() -> None:
    """Usage of an unknown provider is ignored, and taking one gives None."""
    waiting = UnattachedProviders()
    waiting.put_used("a", {"VCPU": 1}, 2)
    assert waiting.take("a") is None
    assert not waiting.by_uuid


def test_what_is_used_is_kept_up() -> None:
    """Usage updates the unattached record, and the generation if one is given."""
    waiting = UnattachedProviders()
    waiting.put(Provider("a", "a", "x", generation=3))
    waiting.put_used("a", {"VCPU": 1}, None)
    assert waiting.by_uuid["a"] == Provider("a", "a", "x", 3, used={"VCPU": 1})
    waiting.put_used("a", {"VCPU": 2}, 4)
    assert waiting.by_uuid["a"] == Provider("a", "a", "x", 4, used={"VCPU": 2})
