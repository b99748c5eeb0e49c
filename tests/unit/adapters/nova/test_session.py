"""Sessions with OpenStack: credentials, tokens, retries and refusals."""

import json

import httpx
import msgspec
import pytest

from berth.adapters.nova.credentials import Credentials, credentials_from
from berth.adapters.nova.session import auth_body
from berth.domain.errors import AccessDeniedError, InvalidInputError, UnavailableError
from tests.unit.adapters.nova.openstack import ENDPOINTS, OpenStack

PASSWORD = {
    "OS_AUTH_URL": "http://keystone.example",
    "OS_USERNAME": "admin",
    "OS_PASSWORD": "secret",
    "OS_PROJECT_NAME": "admin",
}


class _Version(msgspec.Struct):
    version: dict[str, str]


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "OS_AUTH_URL"),
        ({"OS_AUTH_TYPE": "kerberos"}, "OS_AUTH_TYPE"),
        (PASSWORD | {"OS_PASSWORD": ""}, "OS_PASSWORD"),
        (PASSWORD | {"OS_PROJECT_NAME": ""}, "OS_PROJECT_NAME"),
        ({"OS_AUTH_TYPE": "none"}, "--compute-url"),
        ({"OS_AUTH_TYPE": "http_basic", "OS_ENDPOINT": "http://x"}, "--placement-url"),
        ({"OS_TOKEN": "t"}, "OS_AUTH_URL"),
        ({"OS_APPLICATION_CREDENTIAL_ID": "i", "OS_AUTH_URL": "x"}, "CREDENTIAL_SECRET"),
    ],
)
def test_incomplete_credentials_name_the_variable(environ: dict[str, str], name: str) -> None:
    """The error names what is missing."""
    with pytest.raises(InvalidInputError, match=name):
        credentials_from(environ)


def test_the_variables_of_openstack_clients_are_read() -> None:
    """Domains, region and interface have the defaults of OpenStack's clients."""
    found = credentials_from(
        PASSWORD | {"OS_REGION_NAME": "one", "OS_INTERFACE": "internalURL", "OS_INSECURE": "true"}
    )
    assert found.auth_type == "password"
    assert (found.user_domain, found.project_domain) == ("Default", "Default")
    assert (found.region, found.interface, found.is_insecure) == ("one", "internal", True)


@pytest.mark.parametrize(
    ("credentials", "method", "is_scoped"),
    [
        (Credentials("password", username="a", password="b", project_name="p"), "password", True),
        (Credentials("token", token="t", project_id="p"), "token", True),
        (
            Credentials(
                "application_credential",
                application_credential_id="i",
                application_credential_secret="s",
            ),
            "application_credential",
            False,
        ),
    ],
)
def test_each_type_of_credentials_has_its_method(
    credentials: Credentials, method: str, *, is_scoped: bool
) -> None:
    """An application credential is not scoped, because it is bound to its project."""
    body = auth_body(credentials)
    assert body["identity"]["methods"] == [method]
    assert ("scope" in body) is is_scoped


async def version_of(cloud: OpenStack, credentials: Credentials | None = None) -> _Version:
    """Ask a cloud for its version."""
    session = cloud.session(credentials)
    try:
        return await session.get("compute", "/", _Version, version="2.64")
    finally:
        await session.close()


async def test_keystone_gives_token_and_urls() -> None:
    """The catalog of the token has the URLs, and an expired token is renewed once."""
    cloud = OpenStack()
    session = cloud.session(credentials_from(PASSWORD))
    await session.get("compute", "/", _Version, version="2.64")
    cloud.tokens = {"token-2"}  # the first one has expired
    await session.get("compute", "/", _Version, version="2.64")
    await session.close()
    logins = [one for one in cloud.requests if one.method == "POST"]
    assert [one.url.path for one in logins] == ["/v3/auth/tokens"] * 2
    assert json.loads(logins[0].content)["auth"]["identity"]["methods"] == ["password"]


async def test_a_service_that_fails_is_asked_again() -> None:
    """Three failures are survived, and a fourth one is reported."""
    cloud = OpenStack()
    cloud.failures = [503, 500, 502]
    await version_of(cloud)
    cloud.failures = [503] * 4
    with pytest.raises(UnavailableError, match="HTTP 503"):
        await version_of(cloud)


async def test_a_refused_token_is_an_error_of_access() -> None:
    """The error says that an administrator is needed."""
    cloud = OpenStack()
    cloud.tokens = set()
    with pytest.raises(AccessDeniedError, match="administrator"):
        await version_of(cloud)


async def test_http_basic_sends_user_and_password() -> None:
    """No token is sent then."""
    cloud = OpenStack()
    credentials = Credentials(
        "http_basic",
        username="a",
        password="b",
        compute_url=ENDPOINTS["compute"],
        placement_url=ENDPOINTS["placement"],
    )
    await version_of(cloud, credentials)
    (request,) = cloud.requests
    assert request.headers["Authorization"] == httpx.BasicAuth("a", "b")._auth_header
    assert "X-Auth-Token" not in request.headers


async def test_an_answer_of_something_else_is_refused() -> None:
    """The error names the service whose URL is wrong."""
    cloud = OpenStack()
    cloud.compute["/"] = {"hello": "world"}
    with pytest.raises(InvalidInputError, match="is this compute's URL"):
        await version_of(cloud)
