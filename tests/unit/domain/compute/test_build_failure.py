"""Tests for the weight of failed builds by cause and tenant, and its decay."""

from hypothesis import given
from hypothesis import strategies as st

from berth.domain.compute.build_failure import (
    FORGOTTEN,
    TENANTS_MAX,
    BuildError,
    FailureCause,
    FailureCount,
    failure_level,
    with_failure,
    without_forgotten,
)

HALF_LIFE_S = 100.0
HOSTS_OWN = (FailureCause.DRIVER, FailureCause.NETWORK, FailureCause.TIMEOUT)
Counts = tuple[FailureCount, ...]


def failed(cause: FailureCause, *tenants: str, at_s: float = 0.0, counts: Counts = ()) -> Counts:
    """Return counts after one failure of each of the tenants."""
    for one in tenants:
        counts = with_failure(counts, one, cause, now_s=at_s, half_life_s=HALF_LIFE_S)
    return counts


def level(counts: Counts, now_s: float = 0.0) -> float:
    """Return the failure level of the counts."""
    return failure_level(counts, now_s, HALF_LIFE_S)


def test_a_tenant_counts_once_however_often_it_tries() -> None:
    """Repeated failures of one tenant weigh as one, although their count rises and decays later."""
    counts = failed(FailureCause.DRIVER, "a", "a", "a", "a")
    assert [one.level for one in counts] == [4.0]
    assert level(counts) == level(failed(FailureCause.DRIVER, "a")) == 1.0
    assert level(counts, HALF_LIFE_S) == 1.0
    assert level(counts, 3 * HALF_LIFE_S) == 0.5


def test_a_host_that_fails_for_all_is_worse_than_one_that_fails_for_one() -> None:
    """Each tenant and each cause adds its own weight."""
    for cause in HOSTS_OWN:
        assert level(failed(cause, "a", "b", "c")) == 3.0
    two = failed(FailureCause.TIMEOUT, "a", counts=failed(FailureCause.DRIVER, "a"))
    assert level(two) == 2.0


def test_one_tenants_broken_image_says_nothing_about_the_host() -> None:
    """An image failure weighs only from the second tenant on."""
    assert level(failed(FailureCause.IMAGE, "a", "a", "a")) == 0.0
    assert level(failed(FailureCause.IMAGE, "a", "b")) == 1.0
    assert level(failed(FailureCause.IMAGE, "a", "b", "c")) == 2.0


def test_the_requests_own_fault_counts_nothing() -> None:
    """Failures caused by the guest or by a lost claim weigh nothing, but their counts are kept."""
    for cause in (FailureCause.GUEST, FailureCause.CLAIM):
        counts = failed(cause, "a", "b", "c")
        assert (len(counts), level(counts)) == (3, 0.0)


def test_a_cause_of_a_newer_berth_counts_as_the_hosts() -> None:
    """A cause that this version does not know is blamed on the host."""
    assert level(failed(FailureCause("meteor"), "a")) == 1.0


def test_counts_fade_by_halves_and_are_forgotten() -> None:
    """A count halves with each half-life and is dropped after five of them."""
    counts = failed(FailureCause.DRIVER, "a")
    assert [level(counts, n * HALF_LIFE_S) for n in (0, 1, 2)] == [1.0, 0.5, 0.25]
    assert without_forgotten(counts, 4 * HALF_LIFE_S, HALF_LIFE_S) == counts
    assert without_forgotten(counts, 5 * HALF_LIFE_S, HALF_LIFE_S) == ()
    later = failed(FailureCause.IMAGE, "b", at_s=5 * HALF_LIFE_S, counts=counts)
    assert [one.project_id for one in later] == ["b"]


def test_a_clock_that_goes_back_makes_no_failure_count_more() -> None:
    """A failure recorded in the future weighs no more than one recorded now."""
    assert level(failed(FailureCause.DRIVER, "a", at_s=50.0), now_s=0.0) == 1.0


def test_many_tenants_are_counted_together() -> None:
    """Above the limit the tenants with the oldest failures are merged into one count per cause."""
    counts: Counts = ()
    for number in range(3 * TENANTS_MAX):
        cause = (FailureCause.DRIVER, FailureCause.IMAGE)[number % 2]
        counts = failed(cause, f"tenant-{number:03}", at_s=number / 100, counts=counts)
    named = {one.project_id for one in counts}
    assert named == {None, *(f"tenant-{n:03}" for n in range(2 * TENANTS_MAX, 3 * TENANTS_MAX))}
    others = [one for one in counts if one.project_id is None]
    assert [one.cause for one in others] == [FailureCause.DRIVER, FailureCause.IMAGE]
    assert all(TENANTS_MAX - 1 < one.level <= TENANTS_MAX for one in others)


def levels(counts: Counts, now_s: float) -> dict[FailureCause, float]:
    """Return the decayed counts of all tenants together, by cause."""
    sums: dict[FailureCause, float] = {}
    for one in counts:
        sums[one.cause] = sums.get(one.cause, 0.0) + one.level_at(now_s, HALF_LIFE_S)
    return sums


_causes = st.sampled_from(FailureCause)
_failures = st.lists(st.tuples(st.integers(0, 40), _causes, st.floats(0, 300)), max_size=80)


@given(_failures)
def test_laws_of_counts(drawn: list[tuple[int, FailureCause, float]]) -> None:
    """Counts are unique by tenant and cause, bounded in number, and keep their sum."""
    counts: Counts = ()
    now_s = 0.0
    for tenant, cause, pause_s in drawn:
        now_s += pause_s
        before = levels(counts, now_s)
        counts = failed(cause, str(tenant), at_s=now_s, counts=counts)
        after = levels(counts, now_s)
        lost = before.get(cause, 0.0) + 1.0 - after[cause]
        assert -1e-9 <= lost <= FORGOTTEN * (TENANTS_MAX + 1)
        keys = [(one.project_id, one.cause) for one in counts]
        assert len(set(keys)) == len(keys)
        assert len({tenant for tenant, _ in keys}) <= TENANTS_MAX + 1
        assert 0.0 <= level(counts, now_s) <= sum(c.cause.blames_host for c in counts)


def test_an_error_knows_whom_it_blames() -> None:
    """The cause decides whether a build error blames the host, unless `blames_host` is False."""
    assert BuildError("x").cause is FailureCause.DRIVER
    assert BuildError("x", blames_host=False).cause is FailureCause.GUEST
    assert BuildError("x", cause=FailureCause.IMAGE).blames_host
    assert not BuildError("x", cause=FailureCause.CLAIM).blames_host
    assert not BuildError("x", cause=FailureCause.IMAGE, blames_host=False).blames_host
