"""Tests for queries that are hard to refuse because their groups compete in many ways."""

from random import Random

from berth.scheduling.candidates.candidate_search import find_candidates
from berth.scheduling.candidates.query import CandidateQuery
from berth.tables.provider.providers import ProviderTable
from tests.unit.scheduling.candidates.providers import asking, forest, group, provider

FEW_STEPS = 20_000
KINDS = [f"T{n}" for n in range(8)]


def test_chains_that_are_one_too_short() -> None:
    """Twelve isolated groups in one subtree do not fit chains of eleven, found in few steps."""
    random = Random(4)
    rows = [
        provider(
            f"{chain}-{place}",
            below=f"{chain}-{place - 1}" if place else "host",
            traits=" ".join(f"T{n}" for n in range(12) if random.random() < 0.8),
        )
        for chain in range(4)
        for place in range(11)
    ]
    table = forest(provider("host", {"VCPU": 9}), *rows)
    groups = [group(f"_{n}", required=[f"T{n}"]) for n in range(12)]
    all_of_them = " ".join(one.suffix for one in groups)
    query = asking(
        group("_c", {"VCPU": 1}), *groups, isolates=True, same_subtree=[all_of_them], limit=1000
    )
    answer = find_candidates(table, query)
    assert not answer.composed
    assert answer.steps < FEW_STEPS


def tangle(random: Random) -> tuple[ProviderTable, CandidateQuery]:
    """Return a random tree of up to 40 providers and a query of twelve groups in subtrees."""
    names = ["host"]
    rows = [provider("host", {"VCPU": 8})]
    share = random.choice((0.2, 0.4, 0.6))
    for place in range(random.randint(10, 40)):
        traits = " ".join(kind for kind in KINDS if random.random() < share)
        stock = {"DEVICE": random.randint(1, 2), "VCPU": random.randint(1, 3)}
        rows.append(provider(f"d{place}", stock, below=random.choice(names), traits=traits))
        names.append(f"d{place}")
    groups = [
        group(
            f"_{n}",
            random.choice(({}, {"DEVICE": 1}, {"DEVICE": 2}, {"VCPU": 2})) if n else {"VCPU": 1},
            required=random.sample(KINDS, random.choice((1, 1, 2))),
        )
        for n in range(12)
    ]
    near = [
        " ".join(one.suffix for one in random.sample(groups, random.choice((2, 3, 4, 6))))
        for _ in range(random.randint(1, 5))
    ]
    return forest(*rows), asking(*groups, isolates=True, same_subtree=near, limit=1)


def test_groups_apart_in_overlapping_subtrees() -> None:
    """Overlapping subtrees are decided in few steps, with and without a candidate."""
    answers = [find_candidates(*tangle(Random(seed))) for seed in range(60)]
    assert {len(answer.composed) for answer in answers} == {0, 1}
    assert max(answer.steps for answer in answers) < FEW_STEPS


def test_amounts_that_do_not_add_up() -> None:
    """Twelve different amounts on providers of barely enough capacity take few steps."""
    for seed in range(20):
        random = Random(seed)
        amounts = [random.randint(2, 9) for _ in range(12)]
        count = random.randint(3, 6)
        sizes = [sum(amounts) // count + random.randint(0, 1) for _ in range(count)]
        rows = (provider(f"d{n}", {"VCPU": size}, below="host") for n, size in enumerate(sizes))
        groups = (group(f"_{n}", {"VCPU": amount}) for n, amount in enumerate(amounts))
        answer = find_candidates(forest(provider("host"), *rows), asking(*groups, limit=1))
        assert answer.steps < FEW_STEPS
