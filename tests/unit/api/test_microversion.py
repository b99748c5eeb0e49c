"""Negotiation of the compute API's microversion."""

import pytest

from berth.api.errors import HttpError
from berth.api.microversion import MAX, MIN, negotiate
from tests.unit.api.cloud import Stack

NEW = b"openstack-api-version"
OLD = b"x-openstack-nova-api-version"


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ([], MIN),
        ([(NEW, b"compute 2.53")], (2, 53)),
        ([(NEW, b"COMPUTE  2.53 ")], (2, 53)),
        ([(NEW, b"volume 3.0, compute 2.53")], (2, 53)),
        ([(NEW, b"volume 3.0")], MIN),
        ([(OLD, b"2.53")], (2, 53)),
        ([(OLD, b"2.10"), (NEW, b"compute 2.53")], (2, 53)),
        ([(NEW, b"compute latest")], MAX),
        ([(OLD, b"latest")], MAX),
        ([(NEW, b"volume 3.0"), (NEW, b"compute 2.53")], (2, 53)),
    ],
)
def test_the_header_says_the_version(
    headers: list[tuple[bytes, bytes]], version: tuple[int, int]
) -> None:
    """The general header is preferred to the older one, and without any, 2.1 is used."""
    assert negotiate(headers) == version


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"compute", 400),
        (b"compute 2", 400),
        (b"compute 2.01", 400),
        (b"compute 2.1.1", 400),
        (b"compute \xff", 400),
        (b"compute 2.0", 406),
        (b"compute 2.105", 406),
        (b"compute 3.1", 406),
    ],
)
def test_a_bad_version_is_refused(text: bytes, status: int) -> None:
    """A malformed version gets 400, and an unsupported one 406."""
    with pytest.raises(HttpError) as caught:
        negotiate([(NEW, text)])
    assert caught.value.status == status


@pytest.mark.parametrize("path", ["/v2.1/flavors", "/v2.1/nowhere"])
async def test_every_answer_tells_its_version(stack: Stack, path: str) -> None:
    """Responses and errors have the version headers, whose absence clients warn about."""
    answer = await stack.ask("GET", path, version="2.79")
    assert answer.headers["OpenStack-API-Version"] == "compute 2.79"
    assert answer.headers["X-OpenStack-Nova-API-Version"] == "2.79"
    assert "OpenStack-API-Version" in answer.headers["Vary"]


async def test_a_version_out_of_range_is_answered_in_form(stack: Stack) -> None:
    """The message has the range, and the response has the lowest version."""
    answer = await stack.ask("GET", "/v2.1/flavors", version="2.999")
    assert answer.status == 406
    assert "Minimum is 2.1 and maximum is 2.104" in answer.body["computeFault"]["message"]
    assert answer.headers["OpenStack-API-Version"] == "compute 2.1"


async def test_an_operation_is_there_for_its_versions_only(stack: Stack) -> None:
    """Outside its versions, an operation gets 404."""
    path = "/v2.1/os-hypervisors/statistics"
    assert (await stack.ask("GET", path, version="2.87")).status == 200
    assert (await stack.ask("GET", path, version="2.88")).status == 404
