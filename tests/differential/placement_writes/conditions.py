"""Conditions for wanted differences from Placement, on the request and both answers."""

import json
import re
from collections.abc import Mapping
from typing import cast
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import UUID

from berth.api.placement.answers import liking
from berth.api.placement.shapes import is_uuid
from tests.differential.placement.comparing import Difference, bare
from tests.differential.placement_writes.comparing import Exchange, told

_REFUSED = 400
_UNKNOWN_CALLER = 401
_UNSUPPORTED = 415
_FAILED = 500

_INVALID = re.compile("(?s).* Inventory for '(.*)' on resource provider '(.*)' invalid.").fullmatch
_CONSUMER = re.compile("/allocations/([^/?]+)").fullmatch
_PROVIDER = re.compile("/resource_providers/[^/]+").fullmatch


def is_vary(exchange: Exchange, one: Difference) -> bool:
    """Berth's error has a Vary header that Placement's lacks."""
    mine, theirs = (cast("Mapping[str, str]", headers) for headers in (one.berth, one.real))
    is_error = exchange.berth.status >= _REFUSED
    return is_error and mine == {**theirs, "vary": mine.get("vary")}


def is_empty(exchange: Exchange, one: Difference) -> bool:
    """Berth gives a time for an empty list of inventories."""
    mine, theirs = (cast("Mapping[str, str]", headers) for headers in (one.berth, one.real))
    body = exchange.berth.json
    is_empty = isinstance(body, dict) and body.get("inventories") == {}
    return is_empty and mine == {**theirs, "last-modified": "there"}


def is_form(exchange: Exchange, _: Difference) -> bool:
    """The answer is an error, and the client does not prefer JSON to HTML or sent HEAD."""
    accept = exchange.sent.headers.get("accept")
    is_error = exchange.berth.status >= _REFUSED
    is_json = liking(accept, "text/html") < liking(accept, "application/json")
    return is_error and (not is_json or exchange.sent.method == "HEAD")


def is_stranger(exchange: Exchange, _: Difference) -> bool:
    """The caller is not authenticated."""
    return exchange.berth.status == _UNKNOWN_CALLER


def is_order(_: Exchange, one: Difference) -> bool:
    """The messages list the same names in another order."""
    said = str(one.berth)
    tells_several = "No such trait " in said or "Inventory for " in said
    return tells_several and bare(said) == bare(str(one.real))


def is_like(exchange: Exchange, one: Difference) -> bool:
    """Placement lists more traits, which match the prefix as a pattern of SQL's LIKE."""
    asked = dict(parse_qsl(urlsplit(exchange.sent.path).query)).get("name", "")
    way, _, prefix = asked.partition(":")
    if exchange.sent.method != "GET" or way != "startswith":
        return False
    mine, theirs = (cast("dict[str, list[str]]", body)["traits"] for body in (one.berth, one.real))
    pattern = re.escape(prefix).replace("_", ".").replace("%", ".*")
    extra = set(theirs) - set(mine)
    return set(mine) <= set(theirs) and all(
        re.match(pattern, name, re.IGNORECASE) for name in extra
    )


def is_unsaid(exchange: Exchange, one: Difference) -> bool:
    """A provider was changed, and Placement gives no time or another one."""
    mine, theirs = (cast("Mapping[str, str]", headers) for headers in (one.berth, one.real))
    is_change = exchange.sent.method == "PUT" and _PROVIDER(exchange.sent.path) is not None
    return is_change and mine == {**theirs, "last-modified": "there"}


def is_number(_: Exchange, one: Difference) -> bool:
    """The microversion is malformed, and the messages differ only in their last part."""
    said = "Invalid microversion: invalid version string: "
    mine, theirs = (str(text).rpartition("; ")[0] for text in (one.berth, one.real))
    return said in mine and mine == theirs


def is_latin(exchange: Exchange, _: Difference) -> bool:
    """The path is not ASCII."""
    return re.search("%[89A-F]", exchange.sent.path.partition("?")[0]) is not None


def is_there(_: Exchange, one: Difference) -> bool:
    """The inventory to be added exists, and Placement reports an SQL error."""
    return "already exists; change it" in str(one.berth) and "IntegrityError" in str(one.real)


def is_same_uuid(exchange: Exchange, _: Difference) -> bool:
    """The path has a consumer's uuid in an unusual form."""
    found = _CONSUMER(exchange.sent.path)
    return found is not None and is_uuid(found[1]) and found[1] != str(UUID(found[1]))


def is_renamed(exchange: Exchange, _: Difference) -> bool:
    """Berth refuses to rename a class that has allocations."""
    return "has allocations, so it cannot be renamed" in told(exchange.berth).text


def hides_names(exchange: Exchange, _: Difference) -> bool:
    """Berth refuses an unknown name, and Placement finds no provider."""
    is_name = "No such trait" in told(exchange.berth).text
    is_name = is_name or "No such resource class" in told(exchange.berth).text
    return is_name and exchange.real.json == {"resource_providers": []}


def names_another(exchange: Exchange, one: Difference) -> bool:
    """The messages name different unknown traits of the query."""
    mine, theirs = (str(text).rstrip(".").rpartition(": ") for text in (one.berth, one.real))
    asked = unquote(exchange.sent.path)
    return "No such trait(s)" in mine[0] and mine[0] == theirs[0] and theirs[2] in asked


def is_case(exchange: Exchange, _: Difference) -> bool:
    """Placement refuses a media type that is not in lower case."""
    kind = exchange.sent.headers.get("content-type", "")
    return exchange.real.status == _UNSUPPORTED and kind != kind.lower()


def is_nul(exchange: Exchange, _: Difference) -> bool:
    """Berth refuses U+0000 in the query."""
    return exchange.berth.status == _REFUSED and "U+0000" in told(exchange.berth).text


def is_freed(exchange: Exchange, one: Difference) -> bool:
    """Placement names more classes or providers, and the request frees a consumer."""
    mine, theirs = (_INVALID(str(text)) for text in (one.berth, one.real))
    frees = '"allocations": {}' in (exchange.sent.content or "")
    if mine is None or theirs is None or not frees:
        return False
    return all(
        set(ours.split(", ")) <= set(others.split(", "))
        for ours, others in zip(mine.groups(), theirs.groups(), strict=True)
    )


def is_hidden(exchange: Exchange, _: Difference) -> bool:
    """Berth refuses an invalid value under a key that is not a class name."""
    try:
        body = json.loads(exchange.sent.content or "")
    except ValueError:
        return False
    names = body.get("inventories", {}) if isinstance(body, dict) else {}
    is_odd = any(re.search("^[A-Z0-9_]+$", name) is None for name in names)
    return is_odd and "JSON does not validate" in told(exchange.berth).text


def is_long(exchange: Exchange, _: Difference) -> bool:
    """Berth refuses a number of more than 64 bits."""
    return "a number does not fit into 64 bits" in told(exchange.berth).text


def is_nan(exchange: Exchange, _: Difference) -> bool:
    """Berth refuses NaN or Infinity, which are not JSON."""
    return "is not a number in JSON" in told(exchange.berth).text


def fails(exchange: Exchange, _: Difference) -> bool:
    """Berth refuses a request on which Placement fails."""
    return exchange.berth.status == _REFUSED and exchange.real.status == _FAILED


def is_earlier(exchange: Exchange, _: Difference) -> bool:
    """Placement reports another error before the unknown class that Berth reports."""
    mine, theirs = told(exchange.berth).text, told(exchange.real).text
    is_later = "consumer generation conflict" in theirs or "that does not exist" in theirs
    return "malformed reshaper data: No such resource class" in mine and is_later
