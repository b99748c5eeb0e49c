"""The settings of an external Keystone, which validates tokens in the mode `keystone`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta

from berth.config.urls import check_server_url
from berth.domain.errors import InvalidInputError

_Name = Annotated[str, Meta(min_length=1, max_length=255)]
_SECRET_BYTES_MAX: Final = 4_096
_FORM: Final = "https://HOST:PORT/PATH, without a user or password"


@dataclass(frozen=True, slots=True)
class KeystoneSettings:
    """The address of Keystone, Berth's account there, the meaning of roles, and the cache."""

    auth_url: str | None = field(default=None, repr=False)  # an invalid one may have a password
    """Base URL of the Identity API; `/v3` is appended if missing."""
    www_authenticate_uri: str | None = field(default=None, repr=False)
    """URL of Keystone for clients, which responses name; by default `auth_url`."""
    username: _Name = "berth"
    """Berth's account in Keystone."""
    user_domain_name: _Name = "Default"
    """Domain of Berth's account."""
    password: str | None = field(default=None, repr=False)
    """Password of Berth's account; `keystone.password_file` keeps it out of the settings."""
    password_file: Path | None = None
    """File with the password in one line, read again when Keystone refuses the password."""
    project_name: _Name = "service"
    """Project in which the account has a role that may validate tokens (`service` or `admin`)."""
    project_domain_name: _Name = "Default"
    """Domain of that project."""
    application_credential_id: _Name | None = None
    """Application credential to log in with, in place of user, password and project."""
    application_credential_secret: str | None = field(default=None, repr=False)
    """Secret of the application credential."""
    application_credential_secret_file: Path | None = None
    """File with the secret of the application credential in one line, read again when Keystone
    refuses it."""
    ca_file: Path | None = None
    """File of CA certificates that verify Keystone, which replace the system's."""
    admin_roles: tuple[_Name, ...] = ("admin",)
    """Roles that make an administrator."""
    member_roles: tuple[_Name, ...] = ("member",)
    """Roles that allow changes in the project of the token."""
    reader_roles: tuple[_Name, ...] = ("reader",)
    """Roles that allow reading in the project of the token."""
    service_roles: tuple[_Name, ...] = ("service",)
    """Roles of services, which have rights in the Placement API."""
    admin_domains: tuple[_Name, ...] = ()
    """Names or ids of the domains in whose projects `admin_roles` count; by default all."""
    system_admins: bool = False
    """Whether `admin_roles` with system scope make an administrator, for requests that concern no
    project."""
    # Each API process validates each active token once per `cache_s`, so a shorter time means more
    # requests to Keystone.
    cache_s: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """Seconds until a validated token is validated again; a revoked one works for up to as long.
    While Keystone is overloaded or does not answer, it works for up to `grace_s` more. With 0, each
    request causes a validation."""
    grace_s: Annotated[float, Meta(ge=0, le=86_400)] = 300.0
    """Further seconds for which a validated token works while Keystone does not answer."""
    cache_tokens_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Maximum number of tokens in the cache of each API process."""
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 5.0
    """Seconds that a validation may take."""
    retry_s: Annotated[float, Meta(gt=0, le=3_600)] = 5.0
    """Seconds between attempts to reach a Keystone that does not answer."""
    connections_max: Annotated[int, Meta(ge=1, le=64)] = 4
    """Maximum number of simultaneous validations, each in a thread."""

    def __post_init__(self) -> None:
        """Reject malformed URLs, and missing or contradictory credentials.

        Raises:
            InvalidInputError: the error names the key and the remedy; it quotes no secret.
        """
        for key in ("auth_url", "www_authenticate_uri"):
            _check_url(getattr(self, key), f"keystone.{key}")
        prefix = "" if self.application_credential_id is None else "application_credential_"
        given = [
            name
            for name in (
                "password",
                "password_file",
                "application_credential_secret",
                "application_credential_secret_file",
            )
            if getattr(self, name) is not None
        ]
        if self.auth_url is None and not given:
            return
        wanted = [prefix + "secret", prefix + "secret_file"] if prefix else _PASSWORDS
        for name in given:
            if name not in wanted:
                reason = (
                    "does not belong to an application credential; remove it"
                    if prefix
                    else "needs keystone.application_credential_id; set that, or remove this"
                )
                raise InvalidInputError(f"keystone.{name}", reason)
        if len(given) > 1:
            raise InvalidInputError(
                f"keystone.{given[1]}", f"cannot be combined with keystone.{given[0]}; set only one"
            )
        if not given:
            raise InvalidInputError(
                f"keystone.{wanted[1]}",
                f"is missing; name a file with the secret of Berth's account, or set "
                f"keystone.{wanted[0]}, preferably in the environment",
            )

    @property
    def read_secret(self) -> Callable[[], str]:
        """The function that returns the password or the secret of Berth's account."""
        path = self.password_file or self.application_credential_secret_file
        if path is None:
            secret = self.password or self.application_credential_secret or ""
            return lambda: secret
        key = "password_file" if self.password_file else "application_credential_secret_file"
        return lambda: _read(path, f"keystone.{key}")


_PASSWORDS: Final = ["password", "password_file"]


def _check_url(url: str | None, field_name: str) -> None:
    if url is None:
        return
    check_server_url(url, field_name, {"http", "https"}, _FORM)
    parts = urlsplit(url)
    if parts.username is not None or parts.query or parts.fragment or '"' in url:
        raise InvalidInputError(field_name, f"must be {_FORM}")


def _read(path: Path, field_name: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_SECRET_BYTES_MAX + 1)
        secret = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise InvalidInputError(
            field_name,
            f"{path} cannot be read ({error.strerror}); check the path and its permissions",
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(field_name, f"{path} is not UTF-8 text; convert it") from error
    if not secret or len(content) > _SECRET_BYTES_MAX or "\n" in secret:
        raise InvalidInputError(
            field_name,
            f"{path} must have one line with the secret, of at most {_SECRET_BYTES_MAX:,} bytes",
        )
    return secret
