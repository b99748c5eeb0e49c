"""Similar instances: the texts of the rules, and what they keep from tenants."""

from dataclasses import replace

import pytest

from berth.config.policy_file import parse_policy
from berth.domain.errors import PolicyError
from berth.domain.ledger.change import Snapshot
from berth.scheduling.filters import similar_instances as filters
from berth.scheduling.plan.instance_rules import check_instances_tracked, reads_instances
from berth.scheduling.weighers import similar_instances as weighers
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

A, B = Box("a"), Box("b")
SECRETS = ("secret-project", "secret-user", "secret-name", "secret-tier")
TIER = "metadata.tier"
REQUEST = replace(asking(), project_id="p1", user_id="u1", metadata={"tier": "web"})


def fleet() -> Snapshot:
    """Return two instances of the request's project on a, and one of another project on b."""
    mine = replace(resident("1", A), project_id="p1", user_id="u1", metadata={"tier": "web"})
    other = replace(resident("2", A), project_id="p1", user_id=SECRETS[1], metadata={"tier": "db"})
    foreign = replace(
        resident("3", B),
        name=SECRETS[2],
        project_id=SECRETS[0],
        user_id=SECRETS[1],
        metadata={"tier": "web", "note": SECRETS[3]},
    )
    return snapshot_of([A, B], instances=[mine, other, foreign])


def test_reasons_have_numbers_and_no_values(ask: Ask) -> None:
    """A reason says how many similar instances the host has, and what makes them similar."""
    asked = ask(fleet(), REQUEST)
    assert asked.kept(filters.build()) == ["b"]
    assert asked.why(filters.build(), 0) == (
        "it has 2 instances of the same project, and max_similar_instances_per_host is 1"
    )
    assert asked.why(filters.build(attribute=TIER), 0) == (
        "it has 1 instance of the same project with the same value of the metadata tier, and "
        "max_similar_instances_per_host is 1"
    )
    assert asked.relaxed(filters.build(), [0]) == [
        ("max_similar_instances_per_host raised by 2: 1 host", ("a",))
    ]
    everything = filters.build(attribute="flavor"), filters.build(attribute="user")
    texts = [asked.why(rule, row) for rule in everything for row in (0, 1)]
    assert not any(secret in text for text in texts for secret in SECRETS)


def test_metadata_of_other_projects_is_not_compared(ask: Ask) -> None:
    """Equal metadata of another project changes no verdict, value or refusal."""
    asked = ask(fleet(), REQUEST)
    assert asked.kept(filters.build(attribute=TIER)) == ["b"]
    assert asked.raw(weighers.build(attribute=TIER)) == [1.0, 0.0]
    guess = ask(fleet(), replace(REQUEST, metadata={"note": SECRETS[3]}))
    assert guess.kept(filters.build(attribute="metadata.note")) == ["a", "b"]


def test_a_request_without_the_attribute_is_similar_to_nothing(ask: Ask) -> None:
    """The rules do not apply to a request without the attribute."""
    asked = ask(fleet(), replace(REQUEST, metadata={}, image=None))
    for attribute in (TIER, "image"):
        assert asked.kept(filters.build(attribute=attribute)) is None
        assert asked.raw(weighers.build(attribute=attribute)) is None
        assert asked.relaxed(filters.build(attribute=attribute), [0]) == []


def test_an_instance_does_not_count_for_itself(ask: Ask) -> None:
    """An instance that may stay on its host is not in its own way."""
    asked = ask(fleet(), replace(REQUEST, instance_uuids=("1",)))
    assert asked.raw(weighers.build(attribute="user")) == [0.0, 0.0]
    assert asked.raw(weighers.build()) == [1.0, 0.0]
    assert asked.kept(filters.build(attribute="user")) == ["a", "b"]


def test_an_instance_that_changes_its_metadata_is_counted_anew(ask: Ask) -> None:
    """New metadata counts from the event on, also for a key that is read already."""
    asked = ask(fleet(), REQUEST)
    weigher = weighers.build(attribute=TIER)
    assert asked.raw(weigher) == [1.0, 0.0]
    known = asked.hosts.occupants.attributes("2")
    asked.hosts.put_instance(
        asked.hosts.uuid(1),
        asked.hosts.occupants.by_uuid["2"].resident,
        replace(known, metadata={"tier": "web"}),
    )
    assert asked.raw(weigher) == [1.0, 1.0]


def test_limits_and_scales_are_checked() -> None:
    """A limit below 1 and a scale of 0 are refused."""
    with pytest.raises(ValueError, match="max_similar_instances_per_host: 0 must be at least 1"):
        filters.build(max_similar_instances_per_host=0)
    with pytest.raises(ValueError, match="scale"):
        weighers.build(scale=0.0)


COSTS = """
name = "users"
driver = "least_cost"

[[filters]]
name = "ResourcesFilter"

[[costs]]
name = "similar_instances"
attribute = "{attribute}"
"""


def test_a_cost_that_reads_instances_needs_their_information() -> None:
    """Such a policy waits for instance lists, and is refused if instances are not tracked."""
    policy = parse_policy(COSTS.format(attribute="metadata.tier"), "p.toml")
    assert reads_instances(policy, REQUEST)
    with pytest.raises(PolicyError, match="similar_instances reads the instances of hosts"):
        check_instances_tracked(policy, "p.toml")
    with pytest.raises(PolicyError, match="'colour' must be one of project, user"):
        parse_policy(COSTS.format(attribute="colour"), "p.toml")
