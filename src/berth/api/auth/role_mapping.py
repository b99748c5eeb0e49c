"""Maps the roles of Keystone's tokens to rights in Berth."""

from dataclasses import dataclass
from typing import Final

from berth.api.auth.authentication import ADMIN, Identity
from berth.ports.token_validation import ValidToken

_MEMBER: Final = "member"
_READER: Final = "reader"
_SERVICE: Final = "service"
_OWN: Final = frozenset({ADMIN, _MEMBER, _READER, _SERVICE})


@dataclass(frozen=True, slots=True)
class RoleMapping:
    """The Keystone roles, in lower case, that grant the rights of Berth's four roles.

    Administrators have the rights of members, and members those of readers. Readers may only read.
    All other roles keep their names, so that Placement's policy file can refer to them.

    Attributes:
        admin: roles that make an administrator.
        member: roles that allow changes in the token's project.
        reader: roles that allow reading in the token's project.
        service: roles of services, which only the Placement API distinguishes.
        admin_domains: names or ids of the domains in whose projects `admin` makes an administrator;
            empty for all domains.
        system_admins: whether `admin` makes an administrator of a token with system scope.
    """

    admin: frozenset[str] = frozenset({ADMIN})
    member: frozenset[str] = frozenset({_MEMBER})
    reader: frozenset[str] = frozenset({_READER})
    service: frozenset[str] = frozenset({_SERVICE})
    admin_domains: frozenset[str] = frozenset()
    system_admins: bool = False

    def identity_of(self, token: ValidToken) -> Identity:
        """Return the identity of a token's user in the token's scope.

        With domain scope or without a scope, the identity has no project and no rights.
        """
        if not token.project_id and not token.is_system:
            return Identity(
                token.user_id,
                "",
                is_admin=False,
                roles=frozenset(),
                may_read=False,
                may_write=False,
            )
        is_admin = bool(token.roles & self.admin) and self._may_administer(token)
        is_member = is_admin or bool(token.roles & self.member)
        is_reader = is_member or bool(token.roles & self.reader)
        granted = {
            ADMIN: is_admin,
            _MEMBER: is_member,
            _READER: is_reader,
            _SERVICE: bool(token.roles & self.service),
        }
        own = frozenset(role for role, is_granted in granted.items() if is_granted)
        return Identity(
            token.user_id,
            token.project_id,
            is_admin=is_admin,
            roles=(token.roles - _OWN) | own,
            is_system=token.is_system,
            may_read=is_reader,
            may_write=is_member,
        )

    def _may_administer(self, token: ValidToken) -> bool:
        if token.is_system:
            return self.system_admins
        return not self.admin_domains or bool(self.admin_domains & token.project_domain)
