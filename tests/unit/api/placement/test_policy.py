"""The access policy: its language, its rules, and an operator's overrides."""

import pytest

from berth.api.auth.authentication import NoAuth
from berth.api.placement.policy import AccessPolicy, PlacementCaller
from berth.api.placement.rules import ACTION_RULES, BASE, policy_of
from berth.domain.errors import InvalidInputError
from tests.unit.api.placement.service import service_of

ADMIN = PlacementCaller("root", "ops", frozenset({"admin"}))
SERVICE = PlacementCaller("nova", "services", frozenset({"service"}))
READER = PlacementCaller("bob", "web", frozenset({"reader", "member"}))
NOBODY = PlacementCaller("eve", "web", frozenset())


@pytest.mark.parametrize(
    ("check", "allowed"),
    [
        ("@", "admin service reader nobody"),
        ("", "admin service reader nobody"),
        ("!", ""),
        ("role:admin", "admin"),
        ("role:Admin", "admin"),
        ("role:admin or role:service", "admin service"),
        ("role:reader and role:member", "reader"),
        ("not role:admin", "service reader nobody"),
        ("not not role:admin", "admin"),
        ("not (role:admin or role:service)", "reader nobody"),
        ("(role:admin) OR (role:reader AND user_id:bob)", "admin reader"),
        ("role:admin or role:reader and user_id:eve", "admin"),
        ("(role:admin or role:reader) and user_id:bob", "reader"),
        ("rule:other", "service"),
        ("not rule:other and not @", ""),
        ("project_id:%(project_id)s", "reader nobody"),
        ("user_id:%(user_id)s", "nobody"),
        ("project_id:ops", "admin"),
        ("system_scope:all", ""),
        ("(((role:admin)))", "admin"),
    ],
)
def test_the_language_of_checks(check: str, allowed: str) -> None:
    """`not` binds closest and `and` closer than `or`; keywords are not case-sensitive."""
    policy = AccessPolicy({"it": check, "other": "role:service"})
    target = {"project_id": "web", "user_id": "eve"}
    callers = {"admin": ADMIN, "service": SERVICE, "reader": READER, "nobody": NOBODY}
    found = [name for name, caller in callers.items() if policy.allows("it", caller, target)]
    assert found == allowed.split()


def test_without_a_target_it_is_the_callers_own() -> None:
    """Without a target, the caller's own project is used; an empty target matches no caller."""
    policy = AccessPolicy({"it": "project_id:%(project_id)s"})
    assert policy.allows("it", READER)
    assert not policy.allows("it", READER, {})


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ("role:admin role:x", "unexpected 'role:x'"),
        ("role:admin or", "missing at the end"),
        ("(role:admin", "not closed"),
        ("role:admin)", "unexpected ')'"),
        ("()", "not a check"),
        ("admin", "not a check"),
        ("role:", "not a check"),
        ("http://host/check", "no kind of check 'http'"),
        ("rule:nowhere", "no rule 'nowhere'"),
        ("rule:it", "back to itself"),
        ("rule:round", "back to itself"),
        ("domain_id:x", "no kind of check 'domain_id'"),
        ("project_id:%(owner)s", "no 'owner'"),
        ("not " * 60 + "@", "too deeply"),
    ],
)
def test_a_wrong_check_is_refused_at_once(check: str, reason: str) -> None:
    """An invalid check raises an error when the policy is created."""
    with pytest.raises(InvalidInputError, match=r"policy rule (it|round)") as caught:
        AccessPolicy({"it": check, "round": "rule:it"})
    assert reason in str(caught.value)


def test_the_old_defaults_let_administrators_do_everything() -> None:
    """The new defaults reserve the reshaper for services."""
    for enforced in (False, True):
        policy = policy_of({}, enforce_new_defaults=enforced)
        for rule in ACTION_RULES:
            may = not enforced or rule != "placement:reshaper:reshape"
            assert policy.allows(rule, ADMIN) is may, rule
            assert policy.allows(rule, SERVICE), rule
            assert not policy.allows(rule, NOBODY), rule


@pytest.mark.parametrize("enforced", [False, True])
def test_readers_see_the_usages_of_their_project(enforced: bool) -> None:
    """Of all actions, a reader may only see the usages of their own project."""
    policy = policy_of({}, enforce_new_defaults=enforced)
    own, other = {"project_id": "web"}, {"project_id": "ops"}
    assert [rule for rule in ACTION_RULES if policy.allows(rule, READER, own)] == [
        "placement:usages"
    ]
    assert not policy.allows("placement:usages", READER, other)


def test_a_token_for_the_system_may_nothing() -> None:
    """A system-scoped token is refused even by a rule that allows everyone."""
    policy = policy_of({"placement:traits:list": "@"}, enforce_new_defaults=False)
    assert not policy.allows("placement:traits:list", ADMIN._replace(is_system=True))


def test_rules_of_an_operator_take_the_place_of_others() -> None:
    """An overridden base rule is not widened by the old defaults."""
    overrides = {"service_api": "role:mover", "placement:traits:list": "@", "mine": "role:x"}
    policy = policy_of(overrides, enforce_new_defaults=False)
    assert not policy.allows("placement:reshaper:reshape", ADMIN)
    assert policy.allows("placement:traits:list", NOBODY)
    assert not policy.allows("placement:traits:show", NOBODY)


def test_all_rules_can_be_opened() -> None:
    """All action rules can be opened to everyone, as OpenStack's own tests do."""
    policy = policy_of(dict.fromkeys(ACTION_RULES, "@"), enforce_new_defaults=True)
    assert all(policy.allows(rule, NOBODY) for rule in ACTION_RULES)
    assert not policy.allows("admin_api", NOBODY)
    assert len(BASE) == 5


def test_rules_lead_through_few_others() -> None:
    """Rules with many shared references are read, and a chain of more than 50 is refused."""
    woven = {f"r{n}": f"rule:r{n + 1} or rule:r{n + 2}" for n in range(40)}
    assert AccessPolicy({**woven, "r40": "@", "r41": "!"}).allows("r0", NOBODY)
    chain = {f"r{n}": f"rule:r{n + 1}" for n in range(200)}
    with pytest.raises(InvalidInputError, match="a chain of more than 50 other rules"):
        AccessPolicy({**chain, "r200": "@"})


@pytest.mark.parametrize(
    ("token", "may"), [(None, True), ("notused", True), ("admin", True), ("bob", False)]
)
async def test_under_noauth_administrators_have_the_role(token: str | None, may: bool) -> None:
    """Under noauth, only administrators have the role, whatever a header says."""
    service = service_of(auth=NoAuth())
    headers = {"x-auth-token": token, "x-roles": "admin,service"}
    answer = await service.ask("GET", "/traits", headers=headers)
    assert (answer.status_code != 403) is may


async def test_a_token_for_the_system_is_refused_over_http() -> None:
    """A request with the header of a system scope gets 403."""
    headers = {"openstack-system-scope": "all"}
    assert (await service_of().ask("GET", "/traits", headers=headers)).status_code == 403
