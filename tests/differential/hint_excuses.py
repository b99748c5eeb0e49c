"""Conditions for wanted differences in hints."""

import json
import math
from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from berth.domain.compute.host import Host
from tests.differential.cases import Case
from tests.differential.counterfactuals import verdict, with_hint
from tests.differential.differing import (
    RAISED_BY_ATTRIBUTE,
    Differing,
    hint_of,
    host_of,
    number_in,
)


def no_query(case: Case, one: Differing) -> bool:
    """Nova accepts JSON that is not a query, such as null, an empty text or objects as operands."""
    try:
        document: object = json.loads(hint_of(case, "query"))
    except ValueError:
        return False
    refused = str(one.berth).startswith("InvalidInputError: hints.query")
    is_query = isinstance(document, list) and not any(map(_is_odd_json, _leaves(document)))
    return refused and isinstance(one.nova, bool) and not is_query


def _leaves(document: object) -> Iterator[object]:
    if isinstance(document, list):
        for one in document:
            yield from _leaves(one)
    else:
        yield document


def _is_odd_json(leaf: object) -> bool:
    return isinstance(leaf, dict) or (isinstance(leaf, float) and not math.isfinite(leaf))


def no_order(case: Case, one: Differing) -> bool:
    """Nova fails on a comparison of a text with a number."""
    raised = str(one.nova)
    unordered = raised.startswith("TypeError:") and "not supported between instances" in raised
    return unordered and one.berth is False


def no_mapping(case: Case, one: Differing) -> bool:
    """Nova fails on a path into an attribute that is text."""
    return one.nova == RAISED_BY_ATTRIBUTE and isinstance(one.berth, bool)


def novas_own(case: Case, one: Differing) -> bool:
    """The query reads Nova's `$service`, which Berth treats like an unknown attribute."""
    query = hint_of(case, "query")
    read = with_hint(case, "query", query.replace("$service", "$nowhere"))
    return "$service" in query and one.berth is verdict(read, one.rule, one.host)


def address_text(case: Case, one: Differing) -> bool:
    """Nova's `$host_ip` is not a text, so it equals no text."""
    return "$host_ip" in hint_of(case, "query") and one.berth is True and one.nova is False


def joined(case: Case, one: Differing) -> bool:
    """Nova joins the two hints and reads the result; Berth reads each, an empty one as missing."""
    near, cidr = hint_of(case, "build_near_host_ip"), hint_of(case, "cidr")
    named = str(one.berth).removeprefix("InvalidInputError: hints.")
    is_else = (
        (named.startswith("build_near_host_ip") and not _is_address(near))
        or (named.startswith("cidr") and not cidr.startswith("/"))
        or ("cidr" in case.request.hints and not cidr and isinstance(one.berth, bool))
    )
    return is_else and one.nova is _is_within(host_of(case, one), near + cidr)


def _is_address(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


def signed(case: Case, one: Differing) -> bool:
    """Nova reads the length of a prefix like any integer, also with a sign."""
    near, cidr = hint_of(case, "build_near_host_ip"), hint_of(case, "cidr")
    refused = str(one.berth).startswith("InvalidInputError: hints.cidr")
    length = number_in(cidr.removeprefix("/"), int)
    is_odd = cidr.startswith("/") and length is not None and not cidr[1:].isdecimal()
    return refused and is_odd and one.nova is _is_within(host_of(case, one), f"{near}/{length}")


def _is_within(host: Host, network: str) -> bool | None:
    """Tell whether a host's address is in a network; None if the text is not a network."""
    try:
        wide = ip_network(network, strict=False)
    except ValueError:
        return None
    address = ip_address(host.host_ip)
    return address.version == wide.version and address in wide


def wide_network(case: Case, one: Differing) -> bool:
    """Nova uses /24 for IPv6 too if no prefix is given."""
    is_default = not hint_of(case, "cidr") and ":" in hint_of(case, "build_near_host_ip")
    return is_default and one.berth is False and one.nova is True
