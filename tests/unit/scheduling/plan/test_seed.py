"""Seeds come from the request's id."""

from berth.scheduling.plan.planning import seed_of


def test_a_seed_is_63_bits_and_always_the_same() -> None:
    """So it fits a signed column, and a decision can be replayed anywhere."""
    assert seed_of("req-1") == seed_of("req-1") != seed_of("req-2")
    assert all(0 <= seed_of(f"req-{number}") < 2**63 for number in range(100))
