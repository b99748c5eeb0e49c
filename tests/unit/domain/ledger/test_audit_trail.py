"""The chain of hashes of the audit log, and what a check of it detects."""

import hashlib
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.domain.ledger.audit_trail import (
    FIRST_HASH,
    NO_ENTRIES,
    PRUNED,
    AuditBlock,
    AuditEntry,
    AuditHead,
    ChainCheck,
    ChainFault,
    Link,
    audit_key,
    chain,
    head_of,
    link_hash,
)

ENTRIES = st.builds(
    AuditEntry,
    at_ms=st.integers(0, 2**45),
    operation=st.text(max_size=20),
    user_id=st.text(max_size=9),
    roles=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    is_admin=st.booleans(),
    status=st.integers(0, 599),
    targets=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)


def links(entries: Sequence[AuditEntry], head: AuditHead = NO_ENTRIES) -> list[Link]:
    """Return the links of a block that continues a head."""
    return [one.link for one in chain(head, entries).chained()]


def faults(found: Sequence[Link], anchors: dict[int, str] | None = None) -> list[ChainFault]:
    """Return the faults that a check of these links finds."""
    check = ChainCheck(anchors)
    for one in found:
        check.add(one)
    return check.faults()


def entries(count: int) -> list[AuditEntry]:
    """Return different entries."""
    return [AuditEntry(at_ms, f"operation-{at_ms}") for at_ms in range(1, count + 1)]


@given(st.lists(ENTRIES, min_size=1, max_size=6), st.integers(1, 5))
def test_a_chain_of_blocks_has_no_faults(made: list[AuditEntry], size: int) -> None:
    """However entries are divided into blocks, the chain is the same and has no faults."""
    head, blocks = NO_ENTRIES, list[AuditBlock]()
    for first in range(0, len(made), size):
        blocks.append(chain(head, made[first : first + size]))
        head = head_of(blocks[-1])
    found = [one.link for block in blocks for one in block.chained()]
    assert found == links(made)
    assert faults(found) == []
    assert faults(found, {head.number: head.hash}) == []


@given(st.lists(ENTRIES, min_size=3, max_size=6), st.data())
def test_every_manipulation_is_detected(made: list[AuditEntry], data: st.DataObject) -> None:
    """An entry that is altered, inserted, removed or moved is found, also with its own new hash."""
    found = links(made)
    index = data.draw(st.integers(0, len(found) - 2))
    one = found[index]
    other = Link(one.number, one.previous, one.hash, {**one.content, "user_id": "mallory\0"})
    hashed = other._replace(hash=link_hash(one.number, one.previous, other.content))
    manipulate: Callable[[], list[Link]] = data.draw(
        st.sampled_from(
            [
                lambda: [*found[:index], other, *found[index + 1 :]],
                lambda: [*found[:index], hashed, *found[index + 1 :]],
                lambda: [*found[: index + 1], hashed, *found[index + 1 :]],
                lambda: [*found[:index], *found[index + 1 :]],
                lambda: [*found[:index], found[index + 1], one, *found[index + 2 :]],
            ]
        )
    )
    assert faults(manipulate())


@pytest.mark.parametrize(
    ("change", "number", "reason"),
    [
        (lambda found: [*found[:1], *found[2:]], 3, "the entries 2 before it are missing"),
        (lambda found: [found[0], *found[3:]], 4, "the entries 2 to 3 before it are missing"),
        (lambda found: [*found[:2], *found[1:]], 2, "its number should be 3"),
        (lambda found: found[1:], 2, "the entries up to 1 are missing"),
    ],
)
def test_a_fault_says_where_and_what(
    change: Callable[[list[Link]], list[Link]], number: int, reason: str
) -> None:
    """The fault names the entry and what happened there."""
    [fault, *_] = faults(change(links(entries(5))))
    assert fault.number == number
    assert fault.reason.startswith(reason)


def test_a_cut_end_is_found_by_a_noted_head() -> None:
    """A chain whose end was cut off is whole; only a head that was noted elsewhere shows it."""
    found = links(entries(5))
    assert faults(found[:3]) == []
    [fault] = faults(found[:3], {5: found[4].hash})
    assert "its end was cut off" in fault.reason


def test_a_rewritten_chain_is_found_by_a_noted_head() -> None:
    """A chain that was computed anew is whole; only a noted head shows it."""
    noted = links(entries(5))[3].hash
    rewritten = links([*entries(2), AuditEntry(3, "harmless"), *entries(5)[3:]])
    assert faults(rewritten) == []
    [fault] = faults(rewritten, {4: noted})
    assert fault.number == 4
    assert "rewritten" in fault.reason


def test_pruned_entries_are_vouched_for_by_an_entry() -> None:
    """Old entries may be missing if a later entry records exactly their removal."""
    found = links(entries(3))
    details = {"through": "2", "hash": found[1].hash}
    pruned = AuditEntry(9, PRUNED, details=details)
    end = AuditHead(3, found[2].hash)
    assert faults([found[2], *links([pruned], end)]) == []
    other = AuditEntry(9, PRUNED, details={"through": "1", "hash": found[0].hash})
    assert faults([found[2], *links([other], end)])


def test_a_noted_head_that_was_pruned_vouches_for_nothing() -> None:
    """The head before the first remaining entry still counts; a verification says so of others."""
    found = links(entries(3))
    pruned = AuditEntry(9, PRUNED, details={"through": "2", "hash": found[1].hash})
    rest = [found[2], *links([pruned], AuditHead(3, found[2].hash))]
    assert faults(rest, {2: found[1].hash}) == []
    [fault] = faults(rest, {1: found[0].hash})
    assert fault.number == 1
    assert "was pruned" in fault.reason


def test_a_forged_log_cannot_claim_that_the_noted_head_was_pruned() -> None:
    """A chain that was computed anew, and begins after a pruning, has not the noted hash."""
    noted, forged = links(entries(5))[4].hash, "ab" * 32
    pruned = AuditEntry(9, PRUNED, details={"through": "5", "hash": forged})
    [fault] = faults(links([pruned, AuditEntry(10, "harmless")], AuditHead(5, forged)), {5: noted})
    assert "rewritten" in fault.reason


def test_the_hash_is_that_of_the_documented_form() -> None:
    """Anyone can compute the hash: SHA-256 of sorted JSON without empty fields."""
    entry = AuditEntry(5, "DELETE /x", user_id="ünn", targets={"b": "2", "a": "1"}, status=204)
    text = (
        '{"at_ms":5,"number":1,"operation":"DELETE /x","previous":"' + FIRST_HASH + '",'
        '"status":204,"targets":{"a":"1","b":"2"},"user_id":"\\u00fcnn"}'
    )
    [one] = chain(NO_ENTRIES, [entry]).chained()
    assert one.hash == hashlib.sha256(text.encode()).hexdigest()


def test_fields_of_later_versions_do_not_change_hashes() -> None:
    """Empty fields are left out of the hash."""
    assert link_hash(1, "p", {"at_ms": 1, "later": ""}) == link_hash(1, "p", {"at_ms": 1})


def test_keys_sort_like_numbers() -> None:
    """The keys of blocks have the order of their numbers."""
    numbers = [1, 2, 9, 10, 11, 99, 100, 10**15]
    assert sorted(map(audit_key, numbers)) == [audit_key(number) for number in numbers]
