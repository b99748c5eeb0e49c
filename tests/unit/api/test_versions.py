"""The version documents of the compute API, and the health check."""

import pytest

from berth.api.auth.authentication import NoAuth
from tests.unit.api.cloud import Stack


@pytest.mark.parametrize("path", ["/v2.1", "/v2.1/"])
async def test_the_version_document_is_public(stack: Stack, path: str) -> None:
    """The document needs no valid token, and its link has the requested host."""
    answer = await stack.ask("GET", path, token=":", headers={"Host": "cloud:9000"})
    version = answer.body["version"]
    assert answer.status == 200
    assert (version["id"], version["status"]) == ("v2.1", "CURRENT")
    assert (version["min_version"], version["version"]) == ("2.1", "2.104")
    assert version["links"][0] == {"rel": "self", "href": "http://cloud:9000/v2.1/"}


async def test_the_root_lists_the_versions(stack: Stack) -> None:
    """The root lists the versions with links."""
    answer = await stack.ask("GET", "/", headers={"X-Forwarded-Proto": "https"})
    (version,) = answer.body["versions"]
    assert version["links"][0]["href"] == "https://berth.test/v2.1/"


async def test_health_is_public(stack: Stack) -> None:
    """The health check answers without a token."""
    assert (await stack.ask("GET", "/healthz")).body == {"status": "ok"}
    assert isinstance(stack.parts.auth, NoAuth)
