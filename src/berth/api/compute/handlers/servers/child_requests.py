"""Asking children for tenants: what is sent, and what of the answer is believed."""

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
"""How long the parent that asks is going to wait."""
MARKS_HEADER: Final = b"x-berth-zone-marks"
"""Marks of the zones that a list has come through; see `RingMarks`."""
_TIME: Final = re.compile(r"[0-9]{1,6}")
_SHARE_BELOW: Final = 0.8
"""How much of its time a zone gives to its children, so that it still answers without them."""
_HREF: Final = re.compile(
    r"https?://[^/?#]+(?:/[A-Za-z0-9._~\-]+)*?"
    r"(?P<path>(?:/v2\.1)?/(?:servers|flavors|images)/)[A-Za-z0-9._~%\-/]+"
)
_HREF_MAX: Final = 2048
_ID_MAX: Final = 255
_RELATIONS: Final = frozenset({"self", "bookmark"})


def time_left_s(call: Call, most_s: float) -> float:
    """Return how long an answer may take: what the parent gives, where one asks, up to `most_s`."""
    text = call.header(TIME_HEADER) if call.identity.parent is not None else None
    if text is None or _TIME.fullmatch(text) is None:
        return most_s
    return min(most_s, int(text) / 1000)


def marks_of(call: Call) -> tuple[bytes, ...]:
    """Return the marks that a parent's request bears.

    Raises:
        InvalidInputError: they are no marks, or more than there could be.
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
    """Ask a child in the name of a tenant, in the version of the API that was negotiated here.

    One that is disabled is asked, too: it has servers from before, and their owners keep them.

    Args:
        call: the request that it is asked for.
        zone: the child.
        request: method, path and body.
        tenant: project and user.
        within_s: how long this zone itself has.
        marks: of the zones that it came through, this one among them, where it could come back.

    Raises:
        UnavailableError: the child does not answer, or does not let this zone in.
    """
    parts = call.parts.zones
    if parts is None:
        raise UnavailableError(f"zone {zone.name} is not asked at present")
    timeout_s = within_s * _SHARE_BELOW
    headers = {
        "OpenStack-API-Version": f"compute {version_text(call.version)}",
        TIME_HEADER.decode(): str(max(1, int(timeout_s * 1000))),
    }
    if request.body:
        headers["Content-Type"] = "application/json"
    if marks:
        headers[MARKS_HEADER.decode()] = ",".join(map(url_text_of, marks))
    project_id, user_id = tenant
    answer = await parts.children.forward(
        zone,
        ForwardedRequest(request.method, request.path, headers, request.body),
        project_id=project_id,
        user_id=user_id,
        timeout_s=timeout_s,
    )
    if answer.status in {401, 407}:
        call.parts.telemetry.event("zone_refuses_us", zone=zone.name, status=answer.status)
        raise UnavailableError(f"zone {zone.name} does not let this zone in")
    return answer


def read_answer(call: Call, zone: Zone, answer: ForwardedResponse) -> Json:
    """Return the object that a child has answered, with links that lead here.

    Raises:
        UnavailableError: it is no object in JSON, or one that is nested too deeply.
    """
    try:
        check_depth(answer.body, call.parts.limits.json_depth_max)
        found = decode(answer.body, dict[str, object])
    except (InvalidInputError, HttpError) as error:
        raise odd(call, zone) from error
    return cast("Json", _with_links_here(found, root_url(call.scope)))


def odd(call: Call, zone: Zone) -> UnavailableError:
    """Return the error that stands for an answer that is not believed, and tell operators."""
    call.parts.telemetry.event("zone_answered_oddly", zone=zone.name)
    return UnavailableError(f"zone {zone.name} has answered what does not belong there")


def _with_links_here(value: object, root: str) -> object:
    """Return JSON whose links lead to this zone; its children's addresses are for it alone.

    The links of what has an id lead to that, whatever the child says that they lead to.
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
    """Return the links that a field holds; None when it holds something else."""
    is_named = name == "links" or name.endswith("_links")
    if not is_named or not isinstance(value, list):
        return None
    links = cast("list[object]", value)
    return cast("list[Json]", links) if all(isinstance(one, dict) for one in links) else None


def _links_here(links: Sequence[Json], root: str, key: object) -> list[Json]:
    here: list[Json] = []
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
    """Return the path of a server, or of all of them, below the root of the API."""
    return f"{COMPUTE}/servers/{uuid}" if uuid else f"{COMPUTE}/servers"
