"""Who calls the Placement API, as its policy sees them."""

from typing import NamedTuple

from starlette.types import Scope

from berth.api.auth.authentication import Auth, Credentials
from berth.api.header_fields import header_of

_ADMIN_ROLES = frozenset({"admin", "member", "reader"})
_MEMBER_ROLES = frozenset({"member", "reader"})


class Caller(NamedTuple):
    """Who calls. `roles` are in lower case; a system token has no project."""

    user_id: str
    project_id: str
    roles: frozenset[str]
    is_system: bool = False


NOBODY = Caller("", "", frozenset())


async def caller_of(auth: Auth, scope: Scope) -> Caller:
    """Find out who calls.

    Where authentication knows of no roles, administrators have `admin`, and everybody the two
    that it implies.

    Raises:
        HttpError: nobody that is known (401), or too many failures before (429).
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
        )
    )
    roles = identity.roles
    if roles is None:
        roles = _ADMIN_ROLES if identity.is_admin else _MEMBER_ROLES
    return Caller(identity.user_id, identity.project_id, roles, identity.is_system)
