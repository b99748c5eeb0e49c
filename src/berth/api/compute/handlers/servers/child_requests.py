"""Sends requests to child zones on behalf of tenants, and validates the responses."""

import re
from collections.abc import Sequence
from typing import Final, cast
from urllib.parse import quote

from berth.api.codec import decode
from berth.api.errors import HttpError
from berth.api.header_fields import root_url
from berth.api.limits import check_depth
from berth.api.links import COMPUTE
from berth.api.microversion import text_of as version_text
from berth.api.routing import Call
from berth.domain.errors import InvalidInputError, UnavailableError
from berth.domain.zones.zone import Zone
from berth.ports.zones import ForwardedRequest, ForwardedResponse
from berth.services.crypto.base64url import url_text_of
from berth.services.zoning.messages.loop_tokens import read_loop_tokens

Json = dict[str, object]

TIME_HEADER: Final = b"x-berth-zone-time-ms"
"""The header with the time in milliseconds that the parent waits for the response."""
MARKS_HEADER: Final = b"x-berth-zone-marks"
"""The header with the loop tokens of the zones that a list request has passed through."""
REQUEST_ID_HEADER: Final = b"x-berth-zone-request-id"
"""The header with the id of the request that the parent is serving."""
_TIME: Final = re.compile(r"[0-9]{1,6}")
# The share of a zone's time that its children get. In the rest of the time, the zone can respond
# without a child that takes too long, before its own parent stops waiting.
_SHARE_BELOW: Final = 0.8
# The pattern of links to a server, flavor or image, under a root path of plain segments. These
# links are rewritten; a child's other links are dropped.
_HREF: Final = re.compile(
    r"https?://[^/?#]+(?:/[A-Za-z0-9._~\-]+)*?"
    r"(?P<path>(?:/v2\.1)?/(?:servers|flavors|images)/)[A-Za-z0-9._~%\-/]+"
)
_HREF_MAX: Final = 2048
_ID_MAX: Final = 255
_RELATIONS: Final = frozenset({"self", "bookmark"})


def time_left_s(call: Call, most_s: float) -> float:
    """Return the time for a response: `most_s`, or the parent's limit if that is shorter."""
    # Any client can send the header, so it is read only from a parent's request.
    text = call.header(TIME_HEADER) if call.identity.parent is not None else None
    if text is None or _TIME.fullmatch(text) is None:
        return most_s
    return min(most_s, int(text) / 1000)


def marks_of(call: Call) -> tuple[bytes, ...]:
    """Return the loop tokens in a parent's request; an empty tuple for other requests.

    Raises:
        InvalidInputError: a token is malformed, or there are too many.
    """
    text = call.header(MARKS_HEADER) if call.identity.parent is not None else None
    return read_loop_tokens(MARKS_HEADER.decode(), text.split(",") if text else ())


async def ask_child(
    call: Call,
    zone: Zone,
    request: ForwardedRequest,
    *,
    tenant: tuple[str, str],
    within_s: float,
    marks: Sequence[bytes] = (),
) -> ForwardedResponse:
    """Send a request to a child zone on behalf of a tenant, and return the child's response.

    The request has the microversion of the one that is being served. Disabled children also receive
    requests, because they still have servers.

    Args:
        call: the request that is being served.
        zone: the child.
        request: method, path and body.
        tenant: project and user.
        within_s: the time that this zone itself has, in seconds; the child has less.
        marks: loop tokens of the zones that the request has passed through, including this one.
            Only requests that ask all children carry them, because only these could return to this
            zone.

    Raises:
        InvalidInputError: the method, the path or a header is not valid HTTP.
        NotAskedError: the child never received the request.
        UnavailableError: this deployment is not a zone, or the child does not answer or rejects
            this zone's credentials.
    """
    parts = call.parts.zones
    if parts is None:
        raise UnavailableError(
            f"cannot forward to zone {zone.name}: this deployment has no zone name; set zones.name"
        )
    timeout_s = within_s * _SHARE_BELOW
    headers = _headers(call, request, timeout_s, marks)
    project_id, user_id = tenant
    answer = await parts.children.forward(
        zone,
        ForwardedRequest(request.method, request.path, headers, request.body),
        project_id=project_id,
        user_id=user_id,
        timeout_s=timeout_s,
    )
    # A 401 that is passed on would tell the tenant that its own credentials are wrong. The event is
    # for the operator of this zone, who has to repair its account at the child.
    if answer.status in {401, 407}:
        call.parts.telemetry.event(
            "zone_credentials_rejected", zone=zone.name, status=answer.status
        )
        raise UnavailableError(
            f"zone {zone.name} rejects the credentials of this zone; correct them with "
            "`berth zone set`"
        )
    return answer


def _headers(
    call: Call, request: ForwardedRequest, timeout_s: float, marks: Sequence[bytes]
) -> dict[str, str]:
    headers = {
        "OpenStack-API-Version": f"compute {version_text(call.version)}",
        TIME_HEADER.decode(): str(max(1, int(timeout_s * 1000))),
        REQUEST_ID_HEADER.decode(): call.request_id,
    }
    if request.body:
        headers["Content-Type"] = "application/json"
    if marks:
        headers[MARKS_HEADER.decode()] = ",".join(map(url_text_of, marks))
    return headers


def read_answer(call: Call, zone: Zone, answer: ForwardedResponse) -> Json:
    """Return the JSON object in a child's response, with its links rewritten to lead to this zone.

    Raises:
        UnavailableError: the body is not a JSON object, or is nested too deeply.
    """
    try:
        check_depth(answer.body, call.parts.limits.json_depth_max)
        found = decode(answer.body, dict[str, object])
    except (InvalidInputError, HttpError) as error:
        raise invalid_response(call, zone) from error
    return cast("Json", _with_links_here(found, root_url(call.scope)))


def invalid_response(call: Call, zone: Zone) -> UnavailableError:
    """Log a response that fails validation, and return the error to raise for it."""
    call.parts.telemetry.event("zone_response_invalid", zone=zone.name)
    return UnavailableError(f"zone {zone.name} sent an invalid response; try again")


def _with_links_here(value: object, root: str) -> object:
    """Return JSON with all links rewritten to lead to this zone; clients cannot reach its children.

    A link in an object leads to the resource with the id of that object, whatever its target was.
    Links in an object without an id are dropped.
    """
    if isinstance(value, list):
        return [_with_links_here(one, root) for one in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    found: Json = {}
    key = cast("Json", value).get("id")
    for name, one in cast("Json", value).items():
        links = _links_of(name, one)
        if links is None:
            found[name] = _with_links_here(one, root)
        else:
            found[name] = _links_here(links, root, key)
    return found


def _links_of(name: str, value: object) -> Sequence[Json] | None:
    """Return the links in a field, or None if the field is not a list of links."""
    is_named = name == "links" or name.endswith("_links")
    if not is_named or not isinstance(value, list):
        return None
    links = cast("list[object]", value)
    return cast("list[Json]", links) if all(isinstance(one, dict) for one in links) else None


def _links_here(links: Sequence[Json], root: str, key: object) -> list[Json]:
    here: list[Json] = []
    # The child is not fully trusted. With an id that consists of dots, or with `..` in a path, the
    # links would lead clients to another resource of this zone.
    if not isinstance(key, str) or not 0 < len(key) <= _ID_MAX or not key.strip("."):
        return here
    for link in links:
        href, relation = link.get("href"), link.get("rel")
        if not isinstance(href, str) or len(href) > _HREF_MAX or not isinstance(relation, str):
            continue
        match = _HREF.fullmatch(href)
        if match is not None and relation in _RELATIONS and "/.." not in href:
            here.append({"rel": relation, "href": f"{root}{match['path']}{quote(key, safe='')}"})
    return here


def server_path(uuid: str = "") -> str:
    """Return the path of a server under the API's root, or of the list if `uuid` is empty."""
    return f"{COMPUTE}/servers/{uuid}" if uuid else f"{COMPUTE}/servers"
