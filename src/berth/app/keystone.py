"""Builds the authentication of requests by an external Keystone."""

import os
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from berth.adapters.system import LogTelemetry, SystemClock
from berth.api.auth.authentication import HttpBasic
from berth.api.auth.circuit_breaker import CircuitBreaker
from berth.api.auth.keystone import KeystoneAuth, TokenCaching
from berth.api.auth.role_mapping import RoleMapping
from berth.app.extras import needs_extra
from berth.config.auth_file import AuthFile
from berth.config.keystone_settings import KeystoneSettings
from berth.config.setting_values import Address
from berth.config.settings import Settings
from berth.domain.errors import InvalidInputError
from berth.ports.telemetry import Metrics

_KEY_BYTES: Final = 32
# With more renewals in the queue for each connection, unknown tokens would rarely be validated.
_RENEWALS_PER_CONNECTION: Final = 4


def keystone_auth(
    settings: Settings, clock: SystemClock, telemetry: LogTelemetry, metrics: Metrics
) -> KeystoneAuth:
    """Return the authentication of requests by tokens that an external Keystone validates.

    Raises:
        InvalidInputError: keystoneauth1 is not installed, or the file of Berth's secret, of CA
            certificates or of the accounts of parent zones is invalid.
    """
    # Imported here, because only this mode needs keystoneauth1, which is an extra.
    try:
        from berth.adapters.keystone import KeystoneAccess, KeystoneTokens  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            "auth.mode",
            f"keystone {needs_extra(error, 'keystone')}",
        ) from error
    given, url = settings.keystone, settings.keystone.auth_url or ""
    given.read_secret()  # a missing file is an error at the start, not at the first request
    if url.startswith("http:") and not Address(urlsplit(url).hostname or "", 0).is_loopback:
        telemetry.event("keystone_without_tls", auth_url=url)
    access = KeystoneAccess(
        auth_url=url,
        read_secret=given.read_secret,
        username=given.username,
        user_domain_name=given.user_domain_name,
        project_name=given.project_name,
        project_domain_name=given.project_domain_name,
        application_credential_id=given.application_credential_id,
        ca_file=given.ca_file,
        timeout_s=given.timeout_s,
        connections_max=given.connections_max,
    )
    return KeystoneAuth(
        KeystoneTokens(access),
        _role_mapping(given),
        CircuitBreaker(clock, telemetry, pause_s=given.retry_s),
        clock,
        metrics,
        key=os.urandom(_KEY_BYTES),
        uri=given.www_authenticate_uri or access.v3_url,
        caching=TokenCaching(
            fresh_s=given.cache_s,
            grace_s=given.grace_s,
            tokens_max=given.cache_tokens_max,
            renewals_max=given.connections_max * _RENEWALS_PER_CONNECTION,
        ),
        accounts=_zone_accounts(settings, clock, telemetry),
    )


def _role_mapping(given: KeystoneSettings) -> RoleMapping:
    def lower(names: Sequence[str]) -> frozenset[str]:
        return frozenset(name.lower() for name in names)

    return RoleMapping(
        admin=lower(given.admin_roles),
        member=lower(given.member_roles),
        reader=lower(given.reader_roles),
        service=lower(given.service_roles),
        admin_domains=frozenset(given.admin_domains),
        system_admins=given.system_admins,
    )


def _zone_accounts(
    settings: Settings, clock: SystemClock, telemetry: LogTelemetry
) -> HttpBasic | None:
    """Return the authentication of parent zones, which Keystone does not know.

    Returns None without a file of their accounts.
    """
    path = settings.auth.htpasswd
    if path is None:
        return None
    accounts = AuthFile(path, clock, telemetry)
    return HttpBasic(accounts, clock, key=os.urandom(_KEY_BYTES), admins=frozenset())
