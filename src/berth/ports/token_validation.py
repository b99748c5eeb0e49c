"""Validation of tokens by the identity service that issued them."""

from dataclasses import dataclass
from typing import Protocol

from berth.domain.errors import BerthError


class TokenServiceError(BerthError):
    """The identity service gave no usable answer about one token."""


class TokenServiceDownError(TokenServiceError):
    """The identity service cannot validate any token at present.

    Args:
        message: what failed, and what the operator can do.
        pause_s: the minimum time in seconds before the next attempt.
    """

    def __init__(self, message: str, pause_s: float = 0.0) -> None:
        super().__init__(message)
        self.pause_s = pause_s


class TokenServiceBusyError(TokenServiceError):
    """A validation waited too long for its turn; the identity service may be available."""


@dataclass(frozen=True, slots=True)
class ValidToken:
    """The user, roles and scope of a valid token, as the identity service reports them.

    Attributes:
        user_id: id of the user.
        expires_at_s: Unix time at which the token expires.
        roles: names of the roles in the token's scope, in lower case.
        project_id: id of the project; empty if the token has no project scope.
        project_domain: name and id of the project's domain; empty without a project.
        is_system: whether the token has system scope.
    """

    user_id: str
    expires_at_s: float
    roles: frozenset[str] = frozenset()
    project_id: str = ""
    project_domain: frozenset[str] = frozenset()
    is_system: bool = False


class TokenValidator(Protocol):
    """Validates tokens by asking the identity service."""

    async def validate(self, token: str, *, allow_expired: bool = False) -> ValidToken | None:
        """Return the user, roles and scope of a token, or None if the service rejects the token.

        Args:
            token: printable ASCII characters without spaces.
            allow_expired: whether the service may accept a token that has expired recently.

        Raises:
            TokenServiceError: the service gave no usable answer.
            TokenServiceBusyError: the validation waited too long behind others.
            TokenServiceDownError: the service does not answer, or rejects Berth's own account.
        """
        ...
