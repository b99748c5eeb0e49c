"""Failed builds by cause and tenant: their weight against a host, and their decay."""

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
    """Return what the counts say against the host."""
    return failure_level(counts, now_s, HALF_LIFE_S)


def test_a_tenant_counts_once_however_often_it_tries() -> None:
    """The stored count still rises, and takes longer to decay."""
    counts = failed(FailureCause.DRIVER, "a", "a", "a", "a")
    assert [one.level for one in counts] == [4.0]
    assert level(counts) == level(failed(FailureCause.DRIVER, "a")) == 1.0
    assert level(counts, HALF_LIFE_S) == 1.0
    assert level(counts, 3 * HALF_LIFE_S) == 0.5


def test_a_host_that_fails_for_all_is_worse_than_one_that_fails_for_one() -> None:
    """Each tenant adds its own, and so does each cause."""
    for cause in HOSTS_OWN:
        assert level(failed(cause, "a", "b", "c")) == 3.0
    two = failed(FailureCause.TIMEOUT, "a", counts=failed(FailureCause.DRIVER, "a"))
    assert level(two) == 2.0


def test_one_tenants_broken_image_says_nothing_about_the_host() -> None:
    """When others fail there for the same cause, it is the host's after all."""
    assert level(failed(FailureCause.IMAGE, "a", "a", "a")) == 0.0
    assert level(failed(FailureCause.IMAGE, "a", "b")) == 1.0
    assert level(failed(FailureCause.IMAGE, "a", "b", "c")) == 2.0


def test_the_requests_own_fault_counts_nothing() -> None:
    """Neither does a host without capacity; both counts are kept for operators."""
    for cause in (FailureCause.GUEST, FailureCause.CLAIM):
        counts = failed(cause, "a", "b", "c")
        assert (len(counts), level(counts)) == (3, 0.0)


def test_a_cause_of_a_newer_berth_counts_as_the_hosts() -> None:
    """It is not known to be the fault of any other party."""
    assert level(failed(FailureCause("meteor"), "a")) == 1.0


def test_counts_fade_by_halves_and_are_forgotten() -> None:
    """One failure is forgotten after five half-lives."""
    counts = failed(FailureCause.DRIVER, "a")
    assert [level(counts, n * HALF_LIFE_S) for n in (0, 1, 2)] == [1.0, 0.5, 0.25]
    assert without_forgotten(counts, 4 * HALF_LIFE_S, HALF_LIFE_S) == counts
    assert without_forgotten(counts, 5 * HALF_LIFE_S, HALF_LIFE_S) == ()
    later = failed(FailureCause.IMAGE, "b", at_s=5 * HALF_LIFE_S, counts=counts)
    assert [one.project_id for one in later] == ["b"]


def test_a_clock_that_goes_back_makes_no_failure_count_more() -> None:
    """The agents of one host may have clocks that differ."""
    assert level(failed(FailureCause.DRIVER, "a", at_s=50.0), now_s=0.0) == 1.0


def test_many_tenants_are_counted_together() -> None:
    """Those that failed longest ago; nothing of them is lost."""
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
    """Return the faded counts of all tenants together, by cause."""
    sums: dict[FailureCause, float] = {}
    for one in counts:
        sums[one.cause] = sums.get(one.cause, 0.0) + one.level_at(now_s, HALF_LIFE_S)
    return sums


_causes = st.sampled_from(FailureCause)
_failures = st.lists(st.tuples(st.integers(0, 40), _causes, st.floats(0, 300)), max_size=80)


@given(_failures)
def test_laws_of_counts(drawn: list[tuple[int, FailureCause, float]]) -> None:
    """One count per tenant and cause, bounded tenants, preserved sums and a bounded level."""
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
    """By its cause; a driver that only clears the host blames the request."""
    assert BuildError("x").cause is FailureCause.DRIVER
    assert BuildError("x", blames_host=False).cause is FailureCause.GUEST
    assert BuildError("x", cause=FailureCause.IMAGE).blames_host
    assert not BuildError("x", cause=FailureCause.CLAIM).blames_host
    assert not BuildError("x", cause=FailureCause.IMAGE, blames_host=False).blames_host
