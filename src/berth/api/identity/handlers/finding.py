"""Links and permission checks that the Identity API's handlers share."""

from berth.api.errors import HttpError
from berth.api.header_fields import root_url
from berth.api.identity.handlers.versions import PREFIX
from berth.api.identity.schemas.directory import ListLinks, SelfLink
from berth.api.links import quoted
from berth.api.routing import Call

# Id and name of Keystone's default domain, which clients name unless they are configured otherwise.
DOMAIN = "default"
DOMAIN_NAME = "Default"


def list_links(call: Call) -> ListLinks:
    """Return the links for the list that a call requests."""
    return ListLinks(self=f"{root_url(call.scope)}{call.scope['path']}")


def self_link(call: Call, collection: str, key: str) -> SelfLink:
    """Return the link to one resource of a collection."""
    return SelfLink(self=f"{root_url(call.scope)}{PREFIX}/v3/{collection}/{quoted(key)}")


def only_admins(call: Call) -> None:
    """Check that the caller is an administrator.

    Raises:
        HttpError: 403 when the caller is not an administrator.
    """
    if not call.identity.is_admin:
        raise HttpError(403, "Only administrators may look up other users and projects.")
