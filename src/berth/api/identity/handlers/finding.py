"""What the lists of the Identity API share: links, and who may look."""

from berth.api.errors import HttpError
from berth.api.header_fields import root_url
from berth.api.identity.handlers.versions import PREFIX
from berth.api.identity.schemas.directory import ListLinks, SelfLink
from berth.api.links import quoted
from berth.api.routing import Call

DOMAIN = "default"
DOMAIN_NAME = "Default"


def list_links(call: Call) -> ListLinks:
    """Link to the list that a call asks for."""
    return ListLinks(self=f"{root_url(call.scope)}{call.scope['path']}")


def self_link(call: Call, collection: str, key: str) -> SelfLink:
    """Link to one thing."""
    return SelfLink(self=f"{root_url(call.scope)}{PREFIX}/v3/{collection}/{quoted(key)}")


def only_admins(call: Call) -> None:
    """Refuse whoever is no administrator.

    Raises:
        HttpError: 403.
    """
    if not call.identity.is_admin:
        raise HttpError(403, "Only administrators may look up others.")
