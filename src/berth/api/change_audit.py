"""Reports each change that an authenticated caller requests to the audit log."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

import msgspec
from starlette.types import Scope

from berth.api.auth.authentication import Identity
from berth.api.callers import address_of, caller_of_request
from berth.api.observed import OTHER_ROUTE, ROUTE
from berth.api.request_id import known_request_id
from berth.domain.ledger.audit_trail import AuditEntry
from berth.domain.secret_names import HIDDEN, is_secret_name
from berth.domain.url_redaction import redact_accounts
from berth.ports.clock import Clock

_OPERATION: Final = "berth.operation"
_BODY: Final = "berth.body"
_RESULT: Final = "berth.result"
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_METHOD_MAX: Final = 20
_BODY_MAX: Final = 2_000
# Masking takes longer than reading, so it ends once there is more than enough text.
_MASKED_MAX: Final = 4 * _BODY_MAX
# A tenant who repeats a refused request must not fill the ledger.
_REFUSALS_MAX: Final = 30
_REFUSALS_NS: Final = 60_000_000_000
_CALLERS_MAX: Final = 10_000
_DEPTH_MAX: Final = 8
_VALUE_MAX: Final = 255
_NAMES_OF_NEW: Final = ("id", "uuid", "reservation_id", "name", "host")
_MS_PER_S: Final = 1000
_SUCCESS: Final = range(200, 300)
_REFUSED: Final = range(400, 500)


class AuditedOperation(NamedTuple):
    """What the audit log needs to know of an operation.

    Attributes:
        is_audited: whether requests of it are recorded.
        is_public: whether it needs no authenticated caller.
        is_for_admins: whether only administrators may use it, so that bodies are recorded.
    """

    is_audited: bool
    is_public: bool
    is_for_admins: bool


def note_operation(scope: Scope, operation: AuditedOperation) -> None:
    """Store the operation of a request, once it is known."""
    scope[_OPERATION] = operation


def note_body(scope: Scope, raw_body: bytes) -> None:
    """Store the body of a request, once it was read."""
    scope[_BODY] = raw_body


def note_result(scope: Scope, result: object) -> None:
    """Store the body of the response to a request, before it is encoded."""
    scope[_RESULT] = result


class ChangeAudit:
    """Makes an entry of the audit log from each request to change something.

    Requests without an authenticated caller are left out, except those that change something all
    the same, such as the key of a host that proves itself by a token. Refused requests are
    recorded with their status, but of each user who is no administrator at most 30 a minute; the
    user's next entry has the number of those that were left out.

    Args:
        note: takes the entries.
        clock: the clock of the process.
        process: the name of the process in the entries.
    """

    def __init__(self, note: Callable[[AuditEntry], None], clock: Clock, process: str) -> None:
        self._note = note
        self._clock = clock
        self._process = process
        self._refusals: dict[tuple[str, str], _Refusals] = {}

    def ended(self, scope: Scope, status: int, duration_ns: int) -> None:  # noqa: ARG002 - see the port
        """See `RequestWatcher.ended`."""
        method: str = scope["method"]
        if method in _READS:
            return
        caller = caller_of_request(scope)
        operation: AuditedOperation | None = scope.get(_OPERATION)
        if operation is not None and not operation.is_audited:
            return
        has_changed = operation is not None and operation.is_public and status in _SUCCESS
        if caller is None and not has_changed:
            return
        left_out = self._left_out(caller, status)
        if left_out is None:
            return
        route: str = scope.get(ROUTE, OTHER_ROUTE)
        entry = AuditEntry(
            at_ms=int(self._clock.now_s() * _MS_PER_S),
            operation=f"{method[:_METHOD_MAX]} {route}",
            user_id="" if caller is None else caller.user_id,
            project_id="" if caller is None else caller.project_id,
            roles=() if caller is None else tuple(sorted(caller.roles or ())),
            is_admin=caller is not None and caller.is_admin,
            address=address_of(scope),
            parent_zone="" if caller is None else caller.parent or "",
            process=self._process,
            request_id=known_request_id(scope) or "",
            status=status,
            targets=_targets_of(scope, method),
            details=_details_of(scope, route, operation) | left_out,
        )
        self._note(entry)

    def _left_out(self, caller: Identity | None, status: int) -> dict[str, str] | None:
        """Return the detail that counts what was left out before; None to leave this out too."""
        if caller is None or caller.is_admin:
            return {}
        now_ns, key = self._clock.ticks_ns(), (caller.project_id, caller.user_id)
        known = self._refusals.get(key)
        if known is None or now_ns - known.since_ns >= _REFUSALS_NS:
            left_out = 0 if known is None else known.left_out
            known = self._refusals[key] = _Refusals(now_ns, left_out=left_out)
            if len(self._refusals) > _CALLERS_MAX:
                del self._refusals[next(iter(self._refusals))]
        if status in _REFUSED:
            known.count += 1
            if known.count > _REFUSALS_MAX:
                known.left_out += 1
                return None
        counted, known.left_out = known.left_out, 0
        return {"refusals_left_out": str(counted)} if counted else {}


@dataclass(slots=True)
class _Refusals:
    """The refused requests of a user since a time in ticks, and those that no entry has."""

    since_ns: int
    count: int = 0
    left_out: int = 0


def _targets_of(scope: Scope, method: str) -> dict[str, str]:
    params: Mapping[str, object] = scope.get("path_params", {})
    targets = {name: str(value)[:_VALUE_MAX] for name, value in params.items()}
    result: object = scope.get(_RESULT)
    created = "" if result is None or method != "POST" else _name_of_new(result)
    if created:
        targets["created"] = created
    return targets


def _name_of_new(body: object) -> str:
    """Return the id of the object in the response to a create; empty if it has none."""
    # Most responses wrap the object in a field with its noun: {"flavor": {"id": ...}}.
    wrapped = (getattr(body, name) for name in getattr(body, "__struct_fields__", ()))
    for one in (*(inner for inner in wrapped if isinstance(inner, msgspec.Struct)), body):
        for name in _NAMES_OF_NEW:
            value: object = getattr(one, name, None)
            if isinstance(value, str | int) and not isinstance(value, bool):
                return str(value)[:_VALUE_MAX]
    return ""


def _details_of(scope: Scope, route: str, operation: AuditedOperation | None) -> dict[str, str]:
    """Return the name of an action, and the body of an administrator's request."""
    raw_body: bytes = scope.get(_BODY, b"")
    if operation is None or not raw_body:
        return {}
    if route.endswith("/action"):
        action = _action_in(raw_body)
        return {"action": action} if action else {}
    # Only operations of administrators: the bodies of others may contain what tenants keep secret.
    if not operation.is_for_admins:
        return {}
    try:
        content: object = msgspec.json.decode(raw_body)
    except (ValueError, RecursionError):
        return {}
    masked = _Masking(_MASKED_MAX).masked(content, _DEPTH_MAX)
    text = json.dumps(masked, sort_keys=True, separators=(",", ":"))
    return {"body": text[:_BODY_MAX]}


def _action_in(raw_body: bytes) -> str:
    """Return the name of an action, the key of its body; empty if the body has another form."""
    try:
        content = msgspec.json.decode(raw_body, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return ""
    return next(iter(content), "")[:_VALUE_MAX]


class _Masking:
    """Copies a JSON value without secrets, until the copy has about `left` characters."""

    def __init__(self, left: int) -> None:
        self._left = left

    def masked(self, value: object, depth: int) -> object:
        """Return a value without secrets, and without what is nested too deeply or comes late."""
        if isinstance(value, dict):
            return self._masked_fields(cast("dict[str, object]", value), depth)
        if isinstance(value, list):
            items: list[object] = []
            for one in cast("list[object]", value) if depth else ():
                self._left -= 1
                if self._left <= 0:
                    break
                items.append(self.masked(one, depth - 1))
            return items
        if isinstance(value, str):
            # The cut comes last, since it could separate a password from its URL.
            text = redact_accounts(value)[: max(self._left, 0)]
            self._left -= len(text)
            return text
        return value

    def _masked_fields(self, fields: dict[str, object], depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, one in fields.items() if depth else ():
            self._left -= len(name) + 1
            if self._left <= 0:
                break
            found[name] = HIDDEN if is_secret_name(name) else self.masked(one, depth - 1)
        return found
