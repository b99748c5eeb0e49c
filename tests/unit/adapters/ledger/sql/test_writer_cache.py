"""The state that a writer keeps between batches."""

from berth.adapters.ledger.engine.working_set import ProviderCapacity, RequiredKeys
from berth.adapters.ledger.sql.writer_cache import WriterCache
from berth.domain.ledger.record import Kind

NEEDS = RequiredKeys(
    claim_keys={"claim"},
    records={Kind.INSTANCE: {"vm"}},
    providers={"host"},
    consumers={"vm"},
)
LOADED = (
    '[["claim",3]]',
    '[["vm","other",{"VCPU":1}]]',
    '[["host",0],["other",5]]',
    '[["host","VCPU",8,4,1,1,2,3],["other","VCPU",8,8,1,1,1,2]]',
    '[["vm",7]]',
)


def test_a_required_key_is_loaded_once() -> None:
    """After a key was loaded, the cache no longer reports it missing, even if it does not exist."""
    cache = WriterCache()
    assert cache.missing(NEEDS) == NEEDS
    cache.add_loaded(NEEDS, NEEDS, 9, ("[]", "[]", "[]", "[]", "[]"))
    assert cache.working_set.version == 9
    assert cache.missing(NEEDS) == RequiredKeys()
    more = RequiredKeys(
        claim_keys={"claim", "new"}, records={Kind.INSTANCE: {"vm"}, Kind.HOST: {"h"}}
    )
    expected = RequiredKeys(claim_keys={"new"}, records={Kind.HOST: {"h"}})
    assert cache.missing(more) == expected


def test_known_state_is_kept_when_it_is_loaded_again() -> None:
    """Loading does not replace a provider that the cache already knows, whose state is newer."""
    cache = WriterCache()
    required = RequiredKeys(providers={"other"})
    cache.add_loaded(required, required, 1, ("[]", "[]", "[]", "[]"))
    cache.working_set.capacities["other"] = ProviderCapacity(6, {}, {"VCPU": 4})
    cache.add_loaded(NEEDS, NEEDS, 2, LOADED)
    working_set = cache.working_set
    assert working_set.capacities["other"].used == {"VCPU": 4}
    assert (working_set.capacities["host"].used, working_set.capacities["host"].generation) == (
        {"VCPU": 2},
        3,
    )
    assert working_set.held == {"vm": {"other": {"VCPU": 1}}}
    assert working_set.claimed == {"claim": 3}
    assert working_set.revisions == {(Kind.INSTANCE, "vm"): 7}


def test_providers_are_remembered_longest() -> None:
    """Shrinking drops all state except the capacity of existing providers."""
    cache = WriterCache()
    cache.add_loaded(NEEDS, NEEDS, 4, LOADED)
    cache.shrink()
    assert cache.working_set.version == 4
    assert set(cache.working_set.capacities) == {"host", "other"}
    assert cache.missing(NEEDS) == RequiredKeys(
        claim_keys={"claim"}, records={Kind.INSTANCE: {"vm"}}, consumers={"vm"}
    )


def test_missing_providers_are_forgotten() -> None:
    """Shrinking and checkpoints drop unknown uuids, since clients can name arbitrarily many."""
    asked = RequiredKeys(providers={"host", "nobody"})
    for forget in (WriterCache.shrink, checkpoint):
        cache = WriterCache()
        cache.add_loaded(asked, asked, 4, ("[]", "[]", *LOADED[2:4]))
        assert cache.missing(asked) == RequiredKeys()
        forget(cache)
        assert cache.missing(asked) == RequiredKeys(providers={"nobody"})


def checkpoint(cache: WriterCache) -> None:
    """Checkpoint all logged batches."""
    cache.begin_generation()
    cache.end_generation()


def test_records_put_without_loading_are_forgotten_after_the_checkpoint() -> None:
    """A record that was put without being loaded leaves the cache after a checkpoint."""
    cache = WriterCache()
    decision = (Kind.DECISION, "req-1")
    cache.working_set.revisions[decision] = 1
    cache.add_written([decision])
    asked = RequiredKeys(records={Kind.DECISION: {"req-1"}})
    assert cache.missing(asked) == RequiredKeys()
    cache.begin_generation()
    assert cache.missing(asked) == RequiredKeys()
    cache.end_generation()
    assert cache.working_set.revisions == {}
    assert cache.missing(asked) == asked
