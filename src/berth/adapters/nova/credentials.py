"""Credentials of an OpenStack cloud, from the environment variables of OpenStack's clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from berth.domain.errors import InvalidInputError

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_TYPES: Final[Mapping[str, str]] = {
    "none": "none",
    "noauth": "none",
    "noauth2": "none",
    "http_basic": "http_basic",
    "password": "password",
    "v3password": "password",
    "token": "token",
    "v3token": "token",
    "v3applicationcredential": "application_credential",
    "v3_application_credential": "application_credential",
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """The account that the import uses, and the addresses of the services.

    Attributes:
        auth_type: `none`, `http_basic`, `password`, `token` or `application_credential`.
        auth_url: base URL of Keystone; empty without Keystone.
        username: name or, with `http_basic`, login of the account; with `none` the user of the
            token.
        password: its password.
        token: the token, with `token`.
        application_credential_id: the id, with `application_credential`.
        application_credential_secret: its secret.
        project_name: name of the project to which the token is scoped.
        project_id: its id, in place of name and domain.
        user_domain: name of the user's domain.
        project_domain: name of the project's domain.
        interface: the endpoints to use: `public`, `internal` or `admin`.
        region: the region of the endpoints; empty for any.
        compute_url: the compute API, in place of the catalog's.
        placement_url: the Placement API, in place of the catalog's.
        ca_file: CA certificates; empty for the system's.
        is_insecure: whether certificates are not verified.
    """

    auth_type: str
    auth_url: str = ""
    username: str = ""
    password: str = ""
    token: str = ""
    application_credential_id: str = ""
    application_credential_secret: str = ""
    project_name: str = ""
    project_id: str = ""
    user_domain: str = "Default"
    project_domain: str = "Default"
    interface: str = "public"
    region: str = ""
    compute_url: str = ""
    placement_url: str = ""
    ca_file: str = ""
    is_insecure: bool = False

    @property
    def uses_keystone(self) -> bool:
        """Whether Keystone issues the token."""
        return self.auth_type in {"password", "token", "application_credential"}


def credentials_from(
    environ: Mapping[str, str], *, compute_url: str = "", placement_url: str = ""
) -> Credentials:
    """Return the credentials that the `OS_*` variables describe.

    Args:
        environ: the environment.
        compute_url: the compute API; empty for that of the catalog.
        placement_url: the Placement API; likewise.

    Raises:
        InvalidInputError: a variable is missing or has an unknown value; the error names it.
    """

    def of(name: str, default: str = "") -> str:
        return environ.get(f"OS_{name}", "") or default

    wanted = of("AUTH_TYPE", _default_type(of("APPLICATION_CREDENTIAL_ID"), of("TOKEN")))
    auth_type = _TYPES.get(wanted.lower())
    if auth_type is None:
        known = ", ".join(sorted(set(_TYPES.values())))
        raise InvalidInputError("OS_AUTH_TYPE", f"{wanted[:80]!r} is unknown; use one of {known}")
    found = Credentials(
        auth_type=auth_type,
        auth_url=of("AUTH_URL"),
        username=of("USERNAME"),
        password=of("PASSWORD"),
        token=of("TOKEN"),
        application_credential_id=of("APPLICATION_CREDENTIAL_ID"),
        application_credential_secret=of("APPLICATION_CREDENTIAL_SECRET"),
        project_name=of("PROJECT_NAME"),
        project_id=of("PROJECT_ID"),
        user_domain=of("USER_DOMAIN_NAME", of("DEFAULT_DOMAIN_NAME", "Default")),
        project_domain=of("PROJECT_DOMAIN_NAME", of("DEFAULT_DOMAIN_NAME", "Default")),
        interface=of("INTERFACE", "public").removesuffix("URL"),
        region=of("REGION_NAME"),
        compute_url=compute_url or of("COMPUTE_ENDPOINT_OVERRIDE") or of("ENDPOINT"),
        placement_url=placement_url or of("PLACEMENT_ENDPOINT_OVERRIDE"),
        ca_file=of("CACERT"),
        is_insecure=of("INSECURE").lower() in _TRUE,
    )
    _check(found)
    return found


def _default_type(credential_id: str, token: str) -> str:
    if credential_id:
        return "v3applicationcredential"
    return "token" if token else "password"


def _check(found: Credentials) -> None:
    """Reject credentials that lack a value that their type requires."""
    needed: dict[str, str] = {}
    if found.uses_keystone:
        needed["OS_AUTH_URL"] = found.auth_url
    else:
        needed["--compute-url"] = found.compute_url
        needed["--placement-url"] = found.placement_url
    match found.auth_type:
        case "password":
            needed |= {"OS_USERNAME": found.username, "OS_PASSWORD": found.password}
            needed["OS_PROJECT_NAME"] = found.project_name or found.project_id
        case "http_basic":
            needed |= {"OS_USERNAME": found.username, "OS_PASSWORD": found.password}
        case "token":
            needed["OS_TOKEN"] = found.token
        case "application_credential":
            needed["OS_APPLICATION_CREDENTIAL_ID"] = found.application_credential_id
            needed["OS_APPLICATION_CREDENTIAL_SECRET"] = found.application_credential_secret
        case _:
            pass
    for name, value in needed.items():
        if not value:
            raise InvalidInputError(
                name, f"is required for OS_AUTH_TYPE={found.auth_type}; set it and try again"
            )
