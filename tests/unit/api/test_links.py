"""Links to resources, and pages of lists."""

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Scope

from berth.api.header_fields import root_url
from berth.api.links import Linker, page_of
from berth.domain.errors import InvalidInputError


def scope_of(scheme: str = "http", root_path: str = "", **headers: str) -> Scope:
    """Return the scope of a request."""
    fields = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    server: Any = ("10.0.0.1", 8774)
    return {"scheme": scheme, "headers": fields, "server": server, "root_path": root_path}


@pytest.mark.parametrize(
    ("scope", "url"),
    [
        (scope_of(host="cloud:8774"), "http://cloud:8774"),
        (scope_of("https", host="[::1]:8774"), "https://[::1]:8774"),
        (scope_of(), "http://10.0.0.1:8774"),
        (scope_of(host="evil/<script>"), "http://10.0.0.1:8774"),
        (scope_of(host="a", x_forwarded_host="b, c", x_forwarded_proto="HTTPS"), "https://b"),
        (scope_of(host="a", x_forwarded_proto="javascript"), "http://a"),
        (scope_of(host="a", x_forwarded_prefix="/compute/"), "http://a/compute"),
        (scope_of(host="a", x_forwarded_prefix="//evil"), "http://a"),
        (scope_of(host="a", root_path="/cloud"), "http://a/cloud"),
    ],
)
def test_links_lead_where_the_client_came_from(scope: Scope, url: str) -> None:
    """Forwarded headers determine the URL, and malformed ones are ignored."""
    assert root_url(scope) == url


def test_a_key_cannot_break_its_link() -> None:
    """Special characters of a key are quoted in its links."""
    own, bookmark = Linker("http://a").of("flavors", "x/y z?")
    assert own.href == "http://a/v2.1/flavors/x%2Fy%20z%3F"
    assert bookmark.href == "http://a/flavors/x%2Fy%20z%3F"


@given(key=st.text(min_size=1, max_size=20))
def test_keys_are_quoted_in_full(key: str) -> None:
    """Any key is quoted like by `urllib.parse.quote` without safe characters."""
    own, _ = Linker("").of("flavors", key)
    assert own.href == f"/v2.1/flavors/{quote(key, safe='')}"


def test_pages_join_to_the_whole() -> None:
    """Each page begins after its marker, and an unknown marker is refused."""
    items = [1, 2, 3, 4, 5]
    keys = [str(item) for item in items]
    assert list(page_of(items, keys, None, 2)) == [1, 2]
    assert list(page_of(items, keys, "2", 2)) == [3, 4]
    assert list(page_of(items, keys, "4", 2)) == [5]
    assert list(page_of(items, keys, "5", 2)) == []
    with pytest.raises(InvalidInputError):
        page_of(items, keys, "6", 2)
