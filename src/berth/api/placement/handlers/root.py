"""Handler for the versions document."""

from berth.api.placement.actions import PlacementCall, PlacementReply, json_reply
from berth.api.placement.versions import MINOR_MAX, text_of


async def show_versions(ask: PlacementCall) -> PlacementReply:  # noqa: ARG001 - every handler takes a call
    """Show the supported versions of the API."""
    # The link is empty, and thus relative, because the process cannot know its URL behind proxies.
    version = {
        "id": "v1.0",
        "max_version": text_of(MINOR_MAX),
        "min_version": text_of(0),
        "status": "CURRENT",
        "links": [{"rel": "self", "href": ""}],
    }
    return json_reply({"versions": [version]})
