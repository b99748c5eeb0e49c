"""Tests for the watch that detects lost versions."""

from berth.adapters.ledger.postgres.timeline_watch import TimelineWatch
from berth.adapters.ledger.wal.reads import LedgerHead


def head(version: int, **timelines: int) -> LedgerHead:
    """Return the versions of a ledger whose timelines began with these versions."""
    return LedgerHead(version, 0, version, timelines)


def observe(watch: TimelineWatch, *heads: LedgerHead) -> int:
    """Read these versions one after the other; return how often versions were lost."""
    for one in heads:
        watch.observer()(one)
    return watch.losses


def test_a_version_belongs_to_the_newest_timeline_before_it() -> None:
    """A timeline lasts until the next one begins."""
    ledger = head(9, a=1, b=4)
    assert [ledger.timeline_of(version) for version in (0, 1, 3, 4, 9)] == ["", "a", "a", "b", "b"]


def test_new_versions_and_timelines_are_no_loss() -> None:
    """Processes begin timelines whenever they connect, and nothing is lost by that."""
    assert not observe(TimelineWatch(), head(0), head(2, a=1), head(7, a=1, b=4), head(9, a=1, b=4))


def test_a_lower_version_is_a_loss() -> None:
    """A ledger that lacks a version which was read has lost it."""
    assert observe(TimelineWatch(), head(5, a=1), head(4, a=1), head(5, a=1)) == 1


def test_another_timeline_of_the_same_version_is_a_loss() -> None:
    """A version of a timeline that begins at or before it is another one."""
    assert observe(TimelineWatch(), head(5, a=1), head(9, a=1, b=5), head(10, a=1, b=5)) == 1
    assert observe(TimelineWatch(), head(5, a=1), head(9, a=1, b=6)) == 0


def test_a_late_answer_is_compared_with_what_was_known_before() -> None:
    """A read that ends after a newer one is no loss, and does not hide a later loss."""
    watch = TimelineWatch()
    late = watch.observer()
    assert observe(watch, head(9, a=1)) == 0
    late(head(5, a=1))
    assert watch.losses == 0
    assert observe(watch, head(12, a=1, b=7)) == 1
