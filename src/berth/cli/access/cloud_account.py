"""Accounts of OpenStack clouds, from clouds.yaml and from OS_* variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from berth.cli.failures import CommandError, ExitCode
from berth.config.spelling import suggestion

PASSWORD: Final = "password"  # noqa: S105 - the name of a method
TOKEN: Final = "token"  # noqa: S105 - likewise
APPLICATION_CREDENTIAL: Final = "application_credential"
HTTP_BASIC: Final = "http_basic"
ADMIN_TOKEN: Final = "admin_token"  # noqa: S105 - likewise
NONE: Final = "none"

# The names of keystoneauth's plugins, and what this client calls them.
_TYPES: Final[Mapping[str, str]] = {
    "password": PASSWORD,
    "v3password": PASSWORD,
    "token": TOKEN,
    "v3token": TOKEN,
    "v3applicationcredential": APPLICATION_CREDENTIAL,
    "http_basic": HTTP_BASIC,
    "admin_token": ADMIN_TOKEN,
    "token_endpoint": ADMIN_TOKEN,
    "none": NONE,
}
SIGN_INS: Final = frozenset({PASSWORD, TOKEN, APPLICATION_CREDENTIAL})
"""The methods that get a token, and the address of the service, from an Identity service."""

_AUTH_KEYS: Final = (
    "auth_url",
    "username",
    "user_id",
    "password",
    "token",
    "endpoint",
    "project_id",
    "project_name",
    "user_domain_id",
    "user_domain_name",
    "project_domain_id",
    "project_domain_name",
    "domain_id",
    "domain_name",
    "default_domain_id",
    "default_domain_name",
    "system_scope",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
)
# Former names, which OpenStack's clients still accept.
_FORMER: Final = {
    "project_id": "tenant_id",
    "project_name": "tenant_name",
    "interface": "endpoint_type",
}
# OS_* variables that are not in `auth`, with the key of clouds.yaml.
_VARIABLES: Final = {
    "auth_type": "OS_AUTH_TYPE",
    "region_name": "OS_REGION_NAME",
    "interface": "OS_INTERFACE",
    "endpoint_type": "OS_ENDPOINT_TYPE",
    "compute_endpoint_override": "OS_COMPUTE_ENDPOINT_OVERRIDE",
    "cacert": "OS_CACERT",
    "insecure": "OS_INSECURE",
    "tenant_id": "OS_TENANT_ID",
    "tenant_name": "OS_TENANT_NAME",
    "default_domain": "OS_DEFAULT_DOMAIN",
}
_SUFFIXES: Final = ("/v3", "/placement", "/image", "/identity")
_COMPUTE: Final = re.compile(r"/v2(?:\.[0-9]+)?(?:/[^/]+)?$")
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FILE_NAMES: Final = (".yaml", ".yml", ".json")
_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CloudAccount:
    """An account of an OpenStack cloud.

    Attributes:
        origin: where it comes from, for errors and `berth context show`.
        method: one of the constants of this module.
        auth: the values of keystoneauth's plugin; missing ones are absent.
        region: the region whose endpoint is used; empty for any.
        interface: the interface whose endpoint is used.
        endpoint: URL of the compute service instead of the one in the catalog; empty for none.
        ca_file: file of CA certificates; empty for the system's.
        is_verified: whether certificates are verified.
    """

    origin: str
    method: str
    auth: Mapping[str, str]
    region: str = ""
    interface: str = "public"
    endpoint: str = ""
    ca_file: str = ""
    is_verified: bool = True

    @property
    def root(self) -> str:
        """The address of Berth according to the account itself; empty if the catalog has it."""
        # osc-placement reads only `endpoint`, so it is usually the URL of Placement; both URLs have
        # the same root.
        return root_of(self.endpoint or self.auth.get("endpoint", ""))


def root_of(url: str) -> str:
    """Return the address of Berth, given the URL of one of its APIs."""
    root = _COMPUTE.sub("", url.rstrip("/"))
    for suffix in _SUFFIXES:
        root = root.removesuffix(suffix)
    return root


def cloud_of_variables(environ: Mapping[str, str]) -> CloudAccount | None:
    """Return the account in the OS_* variables, or None if they name no address.

    Raises:
        CommandError: a variable is invalid, or one is missing.
    """
    if not any(
        environ.get(f"OS_{name}") for name in ("AUTH_URL", "ENDPOINT", "COMPUTE_ENDPOINT_OVERRIDE")
    ):
        return None
    auth = {key: environ.get(f"OS_{key.upper()}") for key in _AUTH_KEYS}
    others = {key: environ.get(name) for key, name in _VARIABLES.items()}
    return _account({"auth": auth, **others}, "OS_* variables")


def cloud_of_files(name: str, environ: Mapping[str, str], folder: Path) -> CloudAccount:
    """Return the account of a cloud in clouds.yaml and secure.yaml.

    A password that the files leave out may be in OS_PASSWORD.

    Args:
        name: name of the cloud.
        environ: the environment, for the paths of the files.
        folder: the current folder, which is searched first.

    Raises:
        CommandError: there is no such file or cloud, or it is invalid.
    """
    path = _found("clouds", "OS_CLIENT_CONFIG_FILE", environ, folder)
    if path is None:
        raise CommandError(
            f"cloud {name!r} is not known, because there is no clouds.yaml in this folder, in "
            "~/.config/openstack or in /etc/openstack; create one, or set OS_CLIENT_CONFIG_FILE",
            ExitCode.NOT_FOUND,
        )
    clouds = _clouds(path)
    if name not in clouds:
        near = suggestion(name, clouds)
        hint = f"did you mean {near!r}?" if near else "check the name"
        raise CommandError(f"no cloud {name!r} in {path}; {hint}", ExitCode.NOT_FOUND)
    cloud = clouds[name]
    secure = _found("secure", "OS_CLIENT_SECURE_FILE", environ, folder)
    if secure is not None:
        cloud = _merged(cloud, _clouds(secure).get(name, {}))
    if "profile" in cloud:
        raise CommandError(
            f"cloud {name!r} in {path} names a profile, which this client does not know; write its "
            "auth_url and its other fields into the cloud",
            ExitCode.USAGE,
        )
    auth = cloud.get("auth")
    given = cast("dict[str, object]", auth) if isinstance(auth, dict) else {}
    password = environ.get("OS_PASSWORD")
    if password and not given.get("password"):
        cloud = _merged(cloud, {"auth": {"password": password}})
    return _account(cloud, f"cloud {name} ({path})")


def _account(config: Mapping[str, object], origin: str) -> CloudAccount:
    """Return the account that the fields of a cloud describe.

    Raises:
        CommandError: the method is unknown, or a required field is missing.
    """
    given = config.get("auth")
    nested = cast("dict[str, object]", given) if isinstance(given, dict) else {}

    def text_of(key: str) -> str:
        # Like openstacksdk, accept fields of `auth` beside it as well.
        for where in (nested, config):
            for name in (key, _FORMER.get(key, key)):
                value = where.get(name)
                if value is not None and value != "":
                    return str(value)
        return ""

    auth = {key: text_of(key) for key in _AUTH_KEYS}
    if default := text_of("default_domain"):
        auth["default_domain_id"] = auth["default_domain_id"] or default
    account = CloudAccount(
        origin=origin,
        method=_method(text_of("auth_type"), auth, origin),
        auth={key: value for key, value in auth.items() if value},
        region=text_of("region_name"),
        interface=text_of("interface").removesuffix("URL") or "public",
        endpoint=text_of("compute_endpoint_override"),
        ca_file=text_of("cacert"),
        is_verified=text_of("verify").lower() not in ("false", "0", "no")
        and text_of("insecure").lower() not in _TRUE,
    )
    _check(account)
    return account


def _method(auth_type: str, auth: Mapping[str, str], origin: str) -> str:
    if not auth_type:
        if auth["application_credential_secret"]:
            return APPLICATION_CREDENTIAL
        # keystoneauth's default is a password, or a token if one is given without a password.
        return TOKEN if auth["token"] and not auth["password"] else PASSWORD
    method = _TYPES.get(auth_type)
    if method is None:
        known = ", ".join(sorted(_TYPES))
        raise CommandError(
            f"{origin}: auth_type {auth_type!r} is not supported; use one of {known}, or get a "
            "token with `openstack token issue` and give it as --token",
            ExitCode.USAGE,
        )
    return method


def _check(account: CloudAccount) -> None:
    """Check that an account has an address.

    Raises:
        CommandError: it has none.
    """
    if account.method in SIGN_INS:
        if not account.auth.get("auth_url"):
            raise CommandError(f"{account.origin}: auth_url is missing; add it", ExitCode.USAGE)
    elif not account.root:
        raise CommandError(
            f"{account.origin}: auth_type {account.method} needs compute_endpoint_override or "
            "auth.endpoint; add one",
            ExitCode.USAGE,
        )


def _found(stem: str, variable: str, environ: Mapping[str, str], folder: Path) -> Path | None:
    """Return the first file of a name in the folders that OpenStack's clients search."""
    if environ.get(variable):
        return Path(environ[variable])
    config = environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    folders = (folder, Path(config) / "openstack", Path("/etc/openstack"))
    paths = (each / f"{stem}{ending}" for each in folders for ending in _FILE_NAMES)
    return next((path for path in paths if path.is_file()), None)


def _clouds(path: Path) -> dict[str, dict[str, object]]:
    """Return the clouds in a file.

    Raises:
        CommandError: the file cannot be read, or is not YAML with clouds.
    """
    import yaml  # noqa: PLC0415 - only users of clouds.yaml need it

    try:
        with path.open("rb") as file:
            document: object = yaml.safe_load(file.read(_BYTES_MAX))
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read ({error.strerror}); check the path and its permissions",
            ExitCode.USAGE,
        ) from error
    except yaml.YAMLError as error:
        # The error would quote the text around the fault, which may be a password.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise CommandError(f"{path} is not valid YAML{where}; correct it", ExitCode.USAGE) from None
    clouds = (
        cast("dict[str, object]", document).get("clouds") if isinstance(document, dict) else None
    )
    if not isinstance(clouds, dict):
        raise CommandError(f"{path} has no `clouds`; add the cloud", ExitCode.USAGE)
    return {
        str(name): cast("dict[str, object]", cloud)
        for name, cloud in cast("dict[object, object]", clouds).items()
        if isinstance(cloud, dict)
    }


def _merged(cloud: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """Return a cloud with further fields, also below `auth`."""
    merged = dict(cloud)
    for key, value in more.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            both = {**cast("dict[str, object]", before), **cast("dict[str, object]", value)}
            merged[key] = both
        else:
            merged[key] = value
    return merged
