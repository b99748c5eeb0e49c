"""Access policy: the part of OpenStack's policy language that the Placement API needs.

A check is `role:NAME`, `rule:NAME` (another rule), `@` (always allowed), `!` (never allowed),
empty (always allowed), or an attribute of the caller compared with a literal or with
`%(project_id)s` or `%(user_id)s` of the request's target. Checks combine with `not`, `and`, `or`
and parentheses.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from starlette.types import Scope

from berth.api.auth.authentication import Auth, Credentials
from berth.api.callers import note_caller
from berth.api.header_fields import header_of
from berth.domain.errors import InvalidInputError

_ADMIN_ROLES = frozenset({"admin", "member", "reader"})
_MEMBER_ROLES = frozenset({"member", "reader"})


class PlacementCaller(NamedTuple):
    """The authenticated caller.

    `roles` are in lower case. `is_system` is true when the caller requested system scope.
    """

    user_id: str
    project_id: str
    roles: frozenset[str]
    is_system: bool = False


NOBODY = PlacementCaller("", "", frozenset())

Target = Mapping[str, str]
Check = Callable[[PlacementCaller, Target], bool]

_TOKEN = re.compile(r"[()]|(?:%\(\w*\)s|[^\s()])+")
_ABOUT = re.compile(r"%\((\w*)\)s")
_ABOUT_NAMES = frozenset({"project_id", "user_id"})
_ATTRIBUTES: Mapping[str, Callable[[PlacementCaller], str]] = {
    "user_id": lambda caller: caller.user_id,
    "project_id": lambda caller: caller.project_id,
    "system_scope": lambda caller: "all" if caller.is_system else "",
}
# The maximum nesting of a check, and the maximum length of a chain of rules; together they keep
# recursion far below Python's limit.
_DEPTH_MAX = 50


class AccessPolicy:
    """The compiled policy rules.

    Args:
        rules: text of the check by rule name.

    Raises:
        InvalidInputError: a check is malformed or nested too deeply, uses an unknown rule, leads
            back to its own rule, or leads through too many other rules.
    """

    def __init__(self, rules: Mapping[str, str]) -> None:
        self._checks: dict[str, Check] = {}
        uses: dict[str, set[str]] = {}
        for name, text in rules.items():
            parser = _Parser(name, text, self._checks)
            self._checks[name] = parser.parse()
            uses[name] = parser.rules
        # The uses are checked after all rules are parsed, since a rule may use one defined later. A
        # loop or an unknown rule must prevent the process from starting instead of failing
        # requests.
        known: set[str] = set()
        for name in uses:
            _check_uses(name, uses, (), known)

    def allows(self, rule: str, caller: PlacementCaller, target: Target | None = None) -> bool:
        """Return whether a rule allows a caller; system tokens are never allowed.

        Args:
            rule: name of an existing rule.
            caller: the authenticated caller.
            target: `project_id` and `user_id` of the object of the request; by default the
                caller's own.
        """
        # All of Placement's rules have project scope, so it refuses system tokens even with roles.
        if caller.is_system:
            return False
        if target is None:
            target = {"project_id": caller.project_id, "user_id": caller.user_id}
        return self._checks[rule](caller, target)


def _check_uses(
    name: str, uses: Mapping[str, set[str]], seen: tuple[str, ...], known: set[str]
) -> None:
    """Check that a rule leads neither to an unknown rule nor back to itself.

    Args:
        name: the rule.
        uses: names of the rules that each rule uses.
        seen: the rules on the way to this one.
        known: rules already checked; extended by this call.

    Raises:
        InvalidInputError: a rule is unknown, part of a loop, or the end of too long a chain.
    """
    if name in known:
        return
    if name in seen:
        raise InvalidInputError(
            f"policy rule {name}",
            "refers back to itself, directly or through other rules; remove the loop",
        )
    if name not in uses:
        raise InvalidInputError(
            f"policy rule {seen[-1]}", f"there is no rule {name!r}; define it, or correct the name"
        )
    if len(seen) > _DEPTH_MAX:
        raise InvalidInputError(
            f"policy rule {seen[0]}",
            f"leads through a chain of more than {_DEPTH_MAX} other rules; shorten the chain",
        )
    for used in sorted(uses[name]):
        _check_uses(used, uses, (*seen, name), known)
    known.add(name)


class _Parser:
    """Parses one check by recursive descent.

    Attributes:
        rules: names of the rules that the check uses.
    """

    def __init__(self, name: str, text: str, checks: Mapping[str, Check]) -> None:
        self.rules: set[str] = set()
        self._name = name
        self._tokens = _TOKEN.findall(text)
        self._next = 0
        self._depth = 0
        self._checks = checks

    def parse(self) -> Check:
        """Return the compiled check.

        Raises:
            InvalidInputError: the check is malformed or nested too deeply.
        """
        if not self._tokens:
            return _everybody
        check = self._either()
        if self._next < len(self._tokens):
            raise self._error(
                f"unexpected {self._tokens[self._next]!r}; join checks with 'and' or 'or', and "
                "close only parentheses that are open"
            )
        return check

    def _either(self) -> Check:
        checks = [self._both()]
        while self._take("or"):
            checks.append(self._both())
        return checks[0] if len(checks) == 1 else _any_of(checks)

    def _both(self) -> Check:
        checks = [self._one()]
        while self._take("and"):
            checks.append(self._one())
        return checks[0] if len(checks) == 1 else _all_of(checks)

    def _one(self) -> Check:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._error(f"the check is nested too deeply; the limit is {_DEPTH_MAX} levels")
        if self._take("not"):
            check = _not(self._one())
        elif self._take("("):
            check = self._either()
            if not self._take(")"):
                raise self._error("a parenthesis is not closed; add ')'")
        else:
            check = self._simple()
        self._depth -= 1
        return check

    def _take(self, word: str) -> bool:
        is_there = self._next < len(self._tokens) and self._tokens[self._next].lower() == word
        self._next += is_there
        return is_there

    def _simple(self) -> Check:
        if self._next == len(self._tokens):
            raise self._error("a check is missing at the end; add it, or remove the last operator")
        word = self._tokens[self._next]
        self._next += 1
        if word in {"@", "!"}:
            return _everybody if word == "@" else _nobody
        kind, colon, match = word.partition(":")
        if not colon or not match:
            raise self._error(f"{word!r} is not a check; write KIND:VALUE")
        if kind == "rule":
            self.rules.add(match)
            return _rule(match, self._checks)
        if kind == "role":
            return _role(match.lower())
        if kind not in _ATTRIBUTES:
            known = ", ".join(sorted({"role", "rule", *_ATTRIBUTES}))
            raise self._error(f"there is no kind of check {kind!r}; use one of {known}")
        return self._comparison(_ATTRIBUTES[kind], match)

    def _comparison(self, attribute: Callable[[PlacementCaller], str], match: str) -> Check:
        about = _ABOUT.fullmatch(match)
        if about is None:
            return lambda caller, _: attribute(caller) == match
        name = about[1]
        if name not in _ABOUT_NAMES:
            raise self._error(
                f"the target of a request has no {name!r}; use %(project_id)s or %(user_id)s"
            )
        return lambda caller, target: name in target and attribute(caller) == target[name]

    def _error(self, reason: str) -> InvalidInputError:
        return InvalidInputError(f"policy rule {self._name}", reason)


def _everybody(_caller: PlacementCaller, _target: Target) -> bool:
    return True


def _nobody(_caller: PlacementCaller, _target: Target) -> bool:
    return False


def _any_of(checks: list[Check]) -> Check:
    return lambda caller, target: any(check(caller, target) for check in checks)


def _all_of(checks: list[Check]) -> Check:
    return lambda caller, target: all(check(caller, target) for check in checks)


def _not(check: Check) -> Check:
    return lambda caller, target: not check(caller, target)


def _role(role: str) -> Check:
    return lambda caller, _: role in caller.roles


def _rule(name: str, checks: Mapping[str, Check]) -> Check:
    def check(caller: PlacementCaller, target: Target) -> bool:
        # The rule is looked up at each call, since it may be defined after this one.
        return checks[name](caller, target)

    return check


async def caller_of(auth: Auth, scope: Scope) -> PlacementCaller:
    """Return the authenticated caller of a request.

    If the authentication method has no roles, administrators get `admin`, and every caller gets
    `member` and `reader`, which `admin` implies.

    Raises:
        HttpError: the caller is not authenticated (401), failed too often before (429), or too many
            logins are in progress (503).
    """
    client = scope.get("client")
    identity = await auth.identify(
        Credentials(
            authorization=header_of(scope, b"authorization"),
            token=header_of(scope, b"x-auth-token"),
            address=client[0] if client else "",
            roles=header_of(scope, b"x-roles"),
            project=header_of(scope, b"x-project-id"),
            system_scope=header_of(scope, b"openstack-system-scope"),
            service_token=header_of(scope, b"x-service-token"),
        )
    )
    note_caller(scope, identity)
    roles = identity.roles
    if roles is None:
        roles = _ADMIN_ROLES if identity.is_admin else _MEMBER_ROLES
    return PlacementCaller(identity.user_id, identity.project_id, roles, identity.is_system)
