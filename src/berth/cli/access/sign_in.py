"""Sign-in at an Identity service: Keystone, or Berth with the authentication mode `identity`."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx

from berth.cli.access.cloud_account import (
    APPLICATION_CREDENTIAL,
    TOKEN,
    CloudAccount,
    root_of,
)
from berth.cli.failures import CommandError, ExitCode
from berth.domain.url_redaction import redact_url

_TIMEOUT_S: Final = 60.0
_TEXT_MAX: Final = 300
_COMPUTE: Final = frozenset({"compute", "compute_legacy"})
_DEFAULT_DOMAIN: Final = "default"

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A token, and the address of Berth in the catalog."""

    token: str
    url: str


def sign_in(account: CloudAccount, tls: ssl.SSLContext | None, *, trust_env: bool) -> SignedIn:
    """Request a token, and find Berth in the catalog that comes with it.

    Args:
        account: the account, with a method that signs in.
        tls: how the service's certificate is verified; None by the system's authorities.
        trust_env: whether proxies from the environment are used.

    Raises:
        CommandError: the service is unreachable or refuses the account, or its catalog has no
            compute service in the region.
    """
    url = _tokens_url(account.auth["auth_url"])
    try:
        with httpx.Client(verify=tls or True, timeout=_TIMEOUT_S, trust_env=trust_env) as http:
            answer = http.post(url, json=_body(account), headers={"Accept": "application/json"})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CommandError(
            f"cannot reach {redact_url(url)} to sign in ({error}); check auth_url of "
            f"{account.origin}",
            ExitCode.UNREACHABLE,
        ) from error
    token = answer.headers.get("X-Subject-Token", "")
    if answer.status_code != HTTPStatus.CREATED or not token:
        raise _refused(answer, account)
    return SignedIn(token, account.root or root_of(_endpoint(answer, account)))


def _tokens_url(auth_url: str) -> str:
    """Return the URL of tokens; `auth_url` may leave out the version, as in clouds.yaml."""
    base = auth_url.rstrip("/")
    if urlsplit(base).path.rpartition("/")[2] != "v3":
        base += "/v3"
    return f"{base}/auth/tokens"


def _body(account: CloudAccount) -> _Json:
    auth: _Json = {"identity": _identity(account)}
    # An application credential is for one project, and Keystone refuses a scope with it.
    if account.method != APPLICATION_CREDENTIAL and (scope := _scope(account.auth)):
        auth["scope"] = scope
    return {"auth": auth}


def _identity(account: CloudAccount) -> _Json:
    auth = account.auth
    if account.method == TOKEN:
        return {"methods": ["token"], "token": {"id": auth.get("token", "")}}
    if account.method == APPLICATION_CREDENTIAL:
        credential: _Json = {"secret": auth.get("application_credential_secret", "")}
        if "application_credential_id" in auth:
            credential["id"] = auth["application_credential_id"]
        else:
            credential["name"] = auth.get("application_credential_name", "")
            credential["user"] = _named("user", auth)
        return {"methods": ["application_credential"], "application_credential": credential}
    user = _named("user", auth) | {"password": auth.get("password", "")}
    return {"methods": ["password"], "password": {"user": user}}


def _scope(auth: Mapping[str, str]) -> _Json:
    if auth.get("system_scope"):
        return {"system": {"all": True}}
    if auth.get("project_id") or auth.get("project_name"):
        return {"project": _named("project", auth)}
    if "domain_id" in auth:
        return {"domain": {"id": auth["domain_id"]}}
    if "domain_name" in auth:
        return {"domain": {"name": auth["domain_name"]}}
    return {}


def _named(noun: str, auth: Mapping[str, str]) -> _Json:
    """Return a user or project by its id, or by its name and domain."""
    if f"{noun}_id" in auth:
        return {"id": auth[f"{noun}_id"]}
    name = auth.get("username" if noun == "user" else f"{noun}_name", "")
    for key in (f"{noun}_domain", "default_domain"):
        if f"{key}_id" in auth:
            return {"name": name, "domain": {"id": auth[f"{key}_id"]}}
        if f"{key}_name" in auth:
            return {"name": name, "domain": {"name": auth[f"{key}_name"]}}
    return {"name": name, "domain": {"id": _DEFAULT_DOMAIN}}


def _refused(answer: httpx.Response, account: CloudAccount) -> CommandError:
    try:
        message = str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = answer.text[:_TEXT_MAX].strip() or answer.reason_phrase
    unavailable = answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    return CommandError(
        f"{redact_url(str(answer.url))} did not sign in the account of {account.origin}: "
        f"{message.rstrip('.')} (HTTP {answer.status_code}); check user, password, project and "
        "domain",
        ExitCode.UNREACHABLE if unavailable else ExitCode.FAILED,
    )


def _endpoint(answer: httpx.Response, account: CloudAccount) -> str:
    """Return the URL of the compute service in the catalog of a new token.

    Raises:
        CommandError: the catalog has none.
    """
    try:
        services = cast("list[_Json]", answer.json()["token"].get("catalog", []))
        for service in services:
            for endpoint in service["endpoints"] if service["type"] in _COMPUTE else ():
                here = account.region in ("", endpoint.get("region_id"), endpoint.get("region"))
                if here and endpoint["interface"] == account.interface:
                    return str(endpoint["url"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(
            f"the response from {redact_url(str(answer.url))} is not that of Keystone; check "
            f"auth_url of {account.origin}"
        ) from error
    region = f" in region {account.region}" if account.region else ""
    raise CommandError(
        f"the catalog has no {account.interface} endpoint of a compute service{region}; check the "
        f"project and region of {account.origin}, or give --url",
        ExitCode.NOT_FOUND,
    )
