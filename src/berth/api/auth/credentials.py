"""What a request says about its sender."""

from starlette.types import Scope

from berth.api.auth.authentication import Credentials
from berth.api.header_fields import header_of


def credentials_of(scope: Scope) -> Credentials:
    """Return the credentials of a request, without what only `NoAuth2` believes."""
    client = scope.get("client")
    return Credentials(
        authorization=header_of(scope, b"authorization"),
        token=header_of(scope, b"x-auth-token"),
        address=client[0] if client else "",
    )
