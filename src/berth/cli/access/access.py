"""The address and account in force, each value with its origin.

Sources in falling precedence: options, a context or cloud that an option names, BERTH_* variables,
another context (BERTH_CONTEXT or the current one), another cloud (OS_CLOUD or OS_* variables). The
values of a context or cloud belong together: its account is never used for another address.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from berth.cli.access.cloud_account import (
    ADMIN_TOKEN,
    HTTP_BASIC,
    SIGN_INS,
    CloudAccount,
    cloud_of_files,
    cloud_of_variables,
)
from berth.cli.access.context_file import SECRETS, contexts_path, read_contexts
from berth.cli.failures import CommandError, ExitCode

DEFAULT_URL: Final = "http://127.0.0.1:8774"
KEYS: Final = ("url", "user", "password", "token", "ca_file")
"""The values that options and BERTH_* variables set."""

_PASSWORDS: Final = ("password", "password_file", "password_command")
_ORDER: Final = ("url", "user", *_PASSWORDS, "token", "ca_file", "verify")
_ACCOUNT: Final = frozenset({"user", "token", *_PASSWORDS})
_HIDDEN: Final = "(hidden)"


@dataclass(frozen=True, slots=True)
class Value:
    """A value and where it comes from: an option, a variable, a context, a cloud or `default`."""

    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class Access:
    """The address and account in force.

    Attributes:
        values: the values by key: `url`, `user`, `password`, `password_file`, `password_command`,
            `token`, `ca_file`, and `verify`, which only a cloud sets, to `false`.
        cloud: the account to sign in with, or None.
        context: name of the context in use, or None.
    """

    values: Mapping[str, Value]
    cloud: CloudAccount | None = None
    context: str | None = None

    def text(self, key: str) -> str | None:
        """Return a value, or None if no source has it."""
        found = self.values.get(key)
        return None if found is None else found.text

    def shown(self) -> list[dict[str, str]]:
        """Return all values with their origins, and without secrets."""
        rows: dict[str, Value] = {}
        if self.cloud is not None:
            rows = {
                key: Value(text, self.cloud.origin)
                for key, text in (("auth_type", self.cloud.method), *self.cloud.auth.items())
            }
            rows |= {"region": Value(self.cloud.region, self.cloud.origin)}
        rows |= self.values
        return [
            {"key": key, "value": _HIDDEN if _is_secret(key) else one.text, "origin": one.origin}
            for key, one in rows.items()
            if one.text
        ]


@dataclass(frozen=True, slots=True)
class _Layer:
    """The values of one source; those of a profile (a context or cloud) belong together."""

    values: Mapping[str, Value]
    cloud: CloudAccount | None = None
    context: str | None = None
    is_profile: bool = field(default=False)


def access_of(options: Mapping[str, str | None], environ: Mapping[str, str]) -> Access:
    """Return the address and account in force.

    Args:
        options: the values of the options, by `KEYS`, `context` and `os_cloud`; None if not given.
        environ: the environment.

    Raises:
        CommandError: a context or cloud does not exist or is invalid, or options contradict.
    """
    given = {key: Value(text, _option(key)) for key in KEYS if (text := options.get(key))}
    variables = {
        key: Value(environ[name], name) for key in KEYS if environ.get(name := _variable(key))
    }
    named = _named_profile(options, environ)
    if named is not None:
        # Variables of the shell are for another address, but may have the password.
        passwords = {key: one for key, one in variables.items() if key == "password"}
        return _merged((_Layer(given), named, _Layer(passwords)))
    rest = _other_profile(options, environ)
    return _merged((_Layer(given), _Layer(variables), *([] if rest is None else [rest])))


def _named_profile(options: Mapping[str, str | None], environ: Mapping[str, str]) -> _Layer | None:
    """Return the context or cloud that an option names.

    Raises:
        CommandError: see `access_of`.
    """
    context, cloud = options.get("context"), options.get("os_cloud")
    if context and cloud:
        raise CommandError("--context and --os-cloud exclude each other; omit one", ExitCode.USAGE)
    if cloud:
        return _cloud_layer(cloud_of_files(cloud, environ, Path.cwd()))
    return _context_layer(context, environ) if context else None


def _other_profile(options: Mapping[str, str | None], environ: Mapping[str, str]) -> _Layer | None:
    """Return the context or cloud of the environment, or None.

    An empty --context or BERTH_CONTEXT disables the current context.

    Raises:
        CommandError: see `access_of`.
    """
    context = options.get("context")
    context = environ.get("BERTH_CONTEXT") if context is None else context
    layer = None if context == "" else _context_layer(context, environ)
    if layer is not None:
        return layer
    if name := environ.get("OS_CLOUD"):
        return _cloud_layer(cloud_of_files(name, environ, Path.cwd()))
    account = cloud_of_variables(environ)
    return None if account is None else _cloud_layer(account)


def _context_layer(name: str | None, environ: Mapping[str, str]) -> _Layer | None:
    """Return the values of a context, or of the current one; None if none is current."""
    contexts = read_contexts(contexts_path(environ))
    name = contexts.current if name is None else name
    if name is None:
        return None
    fields = dict(contexts.fields_of(name))
    cloud = fields.pop("cloud", None)
    origin = f"context {name} ({contexts.path})"
    values = {key: Value(text, origin) for key, text in fields.items() if text}
    if cloud is None:
        return _Layer(values, None, name, is_profile=True)
    layer = _cloud_layer(cloud_of_files(cloud, environ, Path.cwd()))
    return _Layer({**layer.values, **values}, layer.cloud, name, is_profile=True)


def _cloud_layer(account: CloudAccount) -> _Layer:
    """Return the values of a cloud; an account that must sign in is kept as such."""
    values: dict[str, Value] = {}
    if account.ca_file:
        values["ca_file"] = Value(account.ca_file, account.origin)
    if not account.is_verified:
        values["verify"] = Value("false", account.origin)
    if account.root:
        values["url"] = Value(account.root, account.origin)
    if account.method == HTTP_BASIC:
        names = {"user": "username", "password": "password"}
    elif account.method == ADMIN_TOKEN:
        names = {"token": "token"}
    else:
        names = {}
    for key, name in names.items():
        if text := account.auth.get(name):
            values[key] = Value(text, account.origin)
    signs_in = account.method in SIGN_INS
    return _Layer(values, account if signs_in else None, is_profile=True)


def _merged(layers: tuple[_Layer, ...]) -> Access:
    """Return the first value of each key; see the module for what a profile may add."""
    found: dict[str, Value] = {}
    cloud: CloudAccount | None = None
    context: str | None = None
    for layer in layers:
        values = layer.values
        if layer.is_profile:
            if "url" in found and not _is_same_url(found["url"], values.get("url")):
                continue
            cloud, context = layer.cloud, layer.context
            if "user" in found or "token" in found:
                values = _without_account(values, found.get("user"))
        elif "password" in values and any(key in found for key in _PASSWORDS):
            values = {key: one for key, one in values.items() if key != "password"}
        for key, value in values.items():
            found.setdefault(key, value)
    if cloud is None:
        found.setdefault("url", Value(DEFAULT_URL, "default"))
    return Access({key: found[key] for key in _ORDER if key in found}, cloud, context)


def _without_account(values: Mapping[str, Value], user: Value | None) -> dict[str, Value]:
    """Leave out the account of a profile, unless it is that of the user who is given."""
    own = values.get("user")
    if user is not None and own is not None and user.text == own.text:
        return {key: one for key, one in values.items() if key != "token"}
    return {key: one for key, one in values.items() if key not in _ACCOUNT}


def _is_same_url(one: Value, other: Value | None) -> bool:
    return other is not None and one.text.rstrip("/") == other.text.rstrip("/")


def _is_secret(key: str) -> bool:
    return key in SECRETS or key.endswith("_secret")


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _variable(key: str) -> str:
    return f"BERTH_{key.upper()}"
