"""The amount of history that a ledger keeps."""

import pytest

from berth.adapters.ledger import MemoryLedger, Retention
from berth.domain.compute.decision import Decision
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.write import Committed, Put
from berth.testing.builders import make_decision, make_fleet, make_take


def test_every_limit_is_above_zero() -> None:
    """A limit of zero raises an error that names the field."""
    for name in ("feed_versions", "decisions", "claim_keys_s", "deleted_instances_s"):
        with pytest.raises(InvalidInputError, match=name):
            Retention(**{name: 0})


def test_trimming_is_due_now_and_then() -> None:
    """Trimming is due whenever the feed has advanced by a fiftieth of its length."""
    retention = Retention(feed_versions=500)
    due = [version for version in range(1, 101) if retention.is_due(version - 1, version)]
    assert due == list(range(10, 101, 10))
    assert retention.is_due(3, 999)
    assert not retention.is_due(4, 4)


async def test_old_claim_keys_and_decisions_are_forgotten() -> None:
    """Claim keys expire by age, and decisions beyond the limit are dropped, oldest first."""
    now_s = 0.0
    ledger = MemoryLedger(
        retention=Retention(feed_versions=10, decisions=3, claim_keys_s=60.0), now_s=lambda: now_s
    )
    await ledger.commit([*make_fleet(1), (make_take(1),)])
    now_s = 60.0
    await ledger.commit([(Put(make_decision(n)),) for n in range(10)])
    assert await ledger.commit([(make_take(1),)]) == [Committed(2, repeated=True)]
    assert await ledger.all(Decision) == [make_decision(n) for n in (9, 8, 7)]
    now_s = 61.0
    await ledger.commit([(Put(make_decision(1)),)])
    (outcome,) = await ledger.commit([(make_take(1),)])
    assert not isinstance(outcome, Committed)
