"""Microversions of the Placement API."""

import pytest

from berth.api.placement.errors import PlacementError
from berth.api.placement.versions import MINOR_MAX, negotiate, set_minor, version_headers

NAME = b"openstack-api-version"


@pytest.mark.parametrize(
    ("values", "minor"),
    [
        ([], 0),
        (["placement 1.39"], 39),
        (["placement 1.0"], 0),
        (["placement latest"], MINOR_MAX),
        (["PLACEMENT 1.7"], 7),
        (["placement  1.7 "], 7),
        (["compute 2.90"], 0),
        (["compute 2.90, placement 1.20"], 20),
        (["placement 1.10", "placement 1.20"], 20),
        (["placement 1.20, compute 2.1"], 20),
        (["placement"], 0),
        (["placement "], 0),
        ([","], 0),
    ],
)
def test_what_a_header_asks_for(values: list[str], minor: int) -> None:
    """The last version for this service counts, and without one it is 1.0."""
    headers = [(b"accept", b"*/*"), *((NAME, value.encode()) for value in values)]
    assert negotiate(headers) == minor


@pytest.mark.parametrize(
    ("version", "status", "text"),
    [
        ("1.40", 406, "Unacceptable version header: 1.40"),
        ("0.9", 406, "Unacceptable version header: 0.9"),
        ("2.0", 406, "Unacceptable version header: 2.0"),
        ("1.-1", 406, "Unacceptable version header: 1.-1"),
        ("pony.horse", 400, "invalid version string: pony.horse"),
        ("1.2.3", 400, "invalid version string: 1.2.3"),
        ("1", 400, "invalid version string: 1"),
        ("LATEST", 400, "invalid version string: LATEST"),
        (f"1.{'9' * 5000}", 400, "invalid version string: 1.999"),
    ],
)
def test_what_is_no_version_here(version: str, status: int, text: str) -> None:
    """A malformed version gets 400, and an unsupported one 406."""
    with pytest.raises(PlacementError, match=text.replace(".", r"\.")) as caught:
        negotiate([(NAME, f"placement {version}".encode())])
    assert caught.value.status == status


def test_an_answer_tells_the_version_once_there_is_one() -> None:
    """The version headers, with Vary, are sent once the version is known."""
    scope: dict[str, object] = {}
    assert version_headers(scope) == ()
    set_minor(scope, 12)
    assert version_headers(scope) == ((NAME, b"placement 1.12"), (b"vary", NAME))
