"""The policy API."""

from dataclasses import replace
from pathlib import Path

from berth.api.app import build_app
from berth.config.policy_source import PolicySource
from tests.unit.api.cloud import Stack

POLICY = """
name = "packing"
driver = "filter"
[[filters]]
name = "ResourcesFilter"
[[weighers]]
name = "RAMWeigher"
multiplier = -1.0
"""


async def test_the_policy_is_shown(stack: Stack) -> None:
    """The policy is shown with its rules in order."""
    shown = (await stack.ask("GET", "/berth/v1/policy")).body
    policy = stack.policies.policy
    assert shown["name"] == "default"
    assert shown["hash"] == policy.hash
    assert shown["filters"] == [rule.name for rule in policy.filters]
    assert [one["name"] for one in shown["weighers"]] == [one.name for one in policy.weighers]
    assert shown["last_error"] is None


async def test_a_policy_is_read_again(stack: Stack, tmp_path: Path) -> None:
    """A valid file comes into force, and an invalid one is answered with its error."""
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    policies = PolicySource(path)
    stack.app = build_app(replace(stack.parts, policies=policies))
    answer = await stack.ask("POST", "/berth/v1/policy/reload")
    assert (answer.status, answer.body["changed"]) == (200, False)
    path.write_text(POLICY.replace("packing", "spreading"))
    answer = await stack.ask("POST", "/berth/v1/policy/reload")
    assert answer.body["changed"] is True
    assert answer.body["policy"]["name"] == "spreading"
    path.write_text("driver = 1")
    answer = await stack.ask("POST", "/berth/v1/policy/reload")
    assert answer.status == 400
    assert answer.body["badRequest"]["message"] == policies.last_error
    shown = (await stack.ask("GET", "/berth/v1/policy")).body
    assert (shown["name"], shown["last_error"]) == ("spreading", policies.last_error)
