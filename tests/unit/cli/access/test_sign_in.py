"""Sign-in at an Identity service: the request, and the address from the catalog."""

import json
from typing import Any

import httpx
import pytest

from berth.cli.access.cloud_account import (
    APPLICATION_CREDENTIAL,
    PASSWORD,
    TOKEN,
    CloudAccount,
)
from berth.cli.access.sign_in import SignedIn, sign_in
from berth.cli.failures import CommandError, ExitCode

ENDPOINTS = [
    {"interface": "admin", "region_id": "R", "region": "R", "url": "http://admin/v2.1"},
    {"interface": "public", "region_id": "Q", "region": "Q", "url": "http://other/v2.1"},
    {"interface": "public", "region_id": "R", "region": "R", "url": "http://berth:1/v2.1"},
]
CATALOG = [
    {"type": "image", "endpoints": [{**ENDPOINTS[2], "url": "http://image"}]},
    {"type": "compute", "endpoints": ENDPOINTS},
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> tuple[list[httpx.Request], list[httpx.Response]]:
    """Return the requests to a simulated Keystone, and its answers, of which the last counts."""
    requests: list[httpx.Request] = []
    answers = [httpx.Response(201, headers={"X-Subject-Token": "t"}, json=token(CATALOG))]

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return answers[-1]

    real = httpx.Client

    def client(**options: Any) -> httpx.Client:  # noqa: ANN401 - options of any type
        return real(**{**options, "transport": httpx.MockTransport(answer)})

    monkeypatch.setattr(httpx, "Client", client)
    return requests, answers


Asked = tuple[list[httpx.Request], list[httpx.Response]]


def token(catalog: object) -> dict[str, object]:
    """Return the body of a new token."""
    return {"token": {"catalog": catalog}}


def account(method: str = PASSWORD, **auth: str) -> CloudAccount:
    """Return an account in the region R."""
    return CloudAccount("cloud c", method, {"auth_url": "http://ks:5000", **auth}, "R")


def body_of(asked: Asked) -> dict[str, Any]:
    """Return the `auth` of the last request."""
    auth: dict[str, Any] = json.loads(asked[0][-1].content)["auth"]
    return auth


def test_a_password_gives_a_token_and_an_address(asked: Asked) -> None:
    """The address is that of the compute service in the region, without its version."""
    given = account(username="ann", password="p", project_name="web", project_domain_name="D")
    assert sign_in(given, tls=None, trust_env=False) == SignedIn("t", "http://berth:1")
    assert str(asked[0][-1].url) == "http://ks:5000/v3/auth/tokens"
    assert body_of(asked) == {
        "identity": {
            "methods": ["password"],
            "password": {"user": {"name": "ann", "domain": {"id": "default"}, "password": "p"}},
        },
        "scope": {"project": {"name": "web", "domain": {"name": "D"}}},
    }


@pytest.mark.parametrize(
    ("auth_url", "path"),
    [("http://h/identity/v3", "/identity/v3"), ("http://h/identity/", "/identity/v3")],
)
def test_the_version_may_be_left_out(asked: Asked, auth_url: str, path: str) -> None:
    """Berth's own Identity API has a path before the version."""
    sign_in(account(auth_url=auth_url, user_id="u", password="p"), tls=None, trust_env=False)
    assert asked[0][-1].url.path == f"{path}/auth/tokens"


def test_a_token_may_be_exchanged(asked: Asked) -> None:
    """A token is scoped to the project by its id."""
    sign_in(account(TOKEN, token="old", project_id="1"), tls=None, trust_env=False)
    assert body_of(asked) == {
        "identity": {"methods": ["token"], "token": {"id": "old"}},
        "scope": {"project": {"id": "1"}},
    }


def test_an_application_credential_has_no_scope(asked: Asked) -> None:
    """It is found by its id, or by its name and user."""
    given = {"application_credential_secret": "s", "project_name": "ignored"}
    by_id = account(APPLICATION_CREDENTIAL, application_credential_id="i", **given)
    sign_in(by_id, tls=None, trust_env=False)
    method = "application_credential"
    assert body_of(asked) == {"identity": {"methods": [method], method: {"secret": "s", "id": "i"}}}
    by_name = account(
        APPLICATION_CREDENTIAL, application_credential_name="n", username="ann", **given
    )
    sign_in(by_name, tls=None, trust_env=False)
    assert body_of(asked)["identity"][method] == {
        "secret": "s",
        "name": "n",
        "user": {"name": "ann", "domain": {"id": "default"}},
    }


@pytest.mark.parametrize(
    ("auth", "scope"),
    [
        ({"system_scope": "all"}, {"system": {"all": True}}),
        ({"domain_id": "d"}, {"domain": {"id": "d"}}),
        ({"domain_name": "D"}, {"domain": {"name": "D"}}),
    ],
)
def test_other_scopes_are_requested(
    asked: Asked, auth: dict[str, str], scope: dict[str, object]
) -> None:
    """The service decides whether it accepts them."""
    sign_in(account(user_id="u", password="p", **auth), tls=None, trust_env=False)
    assert body_of(asked)["scope"] == scope


def test_an_endpoint_of_the_account_replaces_the_catalog(asked: Asked) -> None:
    """A catalog may have no compute service then."""
    asked[1].append(httpx.Response(201, headers={"X-Subject-Token": "t"}, json=token([])))
    given = CloudAccount(
        "c", PASSWORD, {"auth_url": "http://k", "password": "p"}, endpoint="http://b/v2.1"
    )
    assert sign_in(given, tls=None, trust_env=False).url == "http://b"


@pytest.mark.parametrize(
    ("status", "body", "said", "code"),
    [
        (401, {"error": {"message": "Bad password."}}, "Bad password (HTTP 401)", ExitCode.FAILED),
        (503, "busy", "busy", ExitCode.UNREACHABLE),
        (201, token([]), "no public endpoint of a compute service in region R", ExitCode.NOT_FOUND),
        (201, token([{"type": "compute"}]), "is not that of Keystone", ExitCode.FAILED),
        (201, "<html>", "is not that of Keystone", ExitCode.FAILED),
        (200, {}, "check user, password", ExitCode.FAILED),
    ],
)
def test_a_refusal_is_reported(
    asked: Asked, status: int, body: object, said: str, code: ExitCode
) -> None:
    """The error names the account's origin and what to check, and never the password."""
    text = body if isinstance(body, str) else json.dumps(body)
    asked[1].append(httpx.Response(status, headers={"X-Subject-Token": "t"}, text=text))
    with pytest.raises(CommandError) as error:
        sign_in(account(user_id="u", password="s3same"), tls=None, trust_env=False)
    assert said in str(error.value)
    assert "cloud c" in str(error.value)
    assert "s3same" not in str(error.value)
    assert error.value.code is code


def test_an_unreachable_service_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the URL and the account's origin."""

    def fail(*_: object, **__: object) -> None:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(httpx.Client, "post", fail)
    with pytest.raises(CommandError, match="http://ks:5000/v3/auth/tokens") as error:
        sign_in(account(user_id="u", password="p"), tls=None, trust_env=False)
    assert error.value.code is ExitCode.UNREACHABLE
