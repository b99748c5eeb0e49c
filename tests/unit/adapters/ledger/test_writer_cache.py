"""What a writer remembers between batches."""

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


def test_what_was_asked_for_is_asked_for_once() -> None:
    """Keys that are known are missing no more, whether they were found or not."""
    knowledge = WriterCache()
    assert knowledge.missing(NEEDS) == NEEDS
    knowledge.learn(NEEDS, NEEDS, 9, ("[]", "[]", "[]", "[]", "[]"))
    assert knowledge.books.version == 9
    assert knowledge.missing(NEEDS) == RequiredKeys()
    more = RequiredKeys(
        claim_keys={"claim", "new"}, records={Kind.INSTANCE: {"vm"}, Kind.HOST: {"h"}}
    )
    expected = RequiredKeys(claim_keys={"new"}, records={Kind.HOST: {"h"}})
    assert knowledge.missing(more) == expected


def test_what_is_known_stays_when_it_is_loaded_again() -> None:
    """A provider that comes with a consumer may have changed since the tables were written."""
    knowledge = WriterCache()
    needs = RequiredKeys(providers={"other"})
    knowledge.learn(needs, needs, 1, ("[]", "[]", "[]", "[]"))
    knowledge.books.rooms["other"] = ProviderCapacity(6, {}, {"VCPU": 4})
    knowledge.learn(NEEDS, NEEDS, 2, LOADED)
    books = knowledge.books
    assert books.rooms["other"].used == {"VCPU": 4}
    assert (books.rooms["host"].used, books.rooms["host"].generation) == ({"VCPU": 2}, 3)
    assert books.held == {"vm": {"other": {"VCPU": 1}}}
    assert books.claimed == {"claim": 3}
    assert books.revisions == {(Kind.INSTANCE, "vm"): 7}


def test_providers_are_remembered_longest() -> None:
    """What can be loaded again is forgotten, but for the room of the fleet."""
    knowledge = WriterCache()
    knowledge.learn(NEEDS, NEEDS, 4, LOADED)
    knowledge.shrink()
    assert knowledge.books.version == 4
    assert set(knowledge.books.rooms) == {"host", "other"}
    assert knowledge.missing(NEEDS) == RequiredKeys(
        claim_keys={"claim"}, records={Kind.INSTANCE: {"vm"}}, consumers={"vm"}
    )


def test_providers_that_are_not_there_are_forgotten() -> None:
    """Anybody may ask for any uuid, so they would never stop growing."""
    asked = RequiredKeys(providers={"host", "nobody"})
    for forget in (WriterCache.shrink, post):
        knowledge = WriterCache()
        knowledge.learn(asked, asked, 4, ("[]", "[]", *LOADED[2:4]))
        assert knowledge.missing(asked) == RequiredKeys()
        forget(knowledge)
        assert knowledge.missing(asked) == RequiredKeys(providers={"nobody"})


def post(knowledge: WriterCache) -> None:
    """Post all pages."""
    knowledge.begin_generation()
    knowledge.end_generation()


def test_what_was_put_unasked_is_forgotten_with_its_page() -> None:
    """Every placement puts a decision that nobody asked for before."""
    knowledge = WriterCache()
    decision = (Kind.DECISION, "req-1")
    knowledge.books.revisions[decision] = 1
    knowledge.note([decision])
    asked = RequiredKeys(records={Kind.DECISION: {"req-1"}})
    assert knowledge.missing(asked) == RequiredKeys()
    knowledge.begin_generation()
    assert knowledge.missing(asked) == RequiredKeys()
    knowledge.end_generation()
    assert knowledge.books.revisions == {}
    assert knowledge.missing(asked) == asked
