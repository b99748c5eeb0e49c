"""The settings of logs, the audit log, metrics, traces and health."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from berth.config.setting_values import Address
from berth.config.urls import check_server_url
from berth.domain.errors import InvalidInputError

# An endpoint has no `@`, and so no user or password, because exporters write it into error logs.
_ENDPOINT: Final = re.compile(r"https?://[^/@\s]+(/[^@\s]*)?")

WATCHED_FLAVORS_MAX: Final = 50
"""Maximum number of flavors that metrics name."""
LevelOfEvent: TypeAlias = Annotated[
    str, Meta(pattern="^[a-z0-9_]{1,80}=(debug|info|warning|error|off)$")
]


class LogFormat(StrEnum):
    """The format of log lines."""

    CONSOLE = "console"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The content, the format and the destination of the log."""

    level: Annotated[str, Meta(pattern="^(debug|info|warning|error)$")] = "info"
    """The lowest level that is logged."""
    levels: tuple[LevelOfEvent, ...] = ()
    """Lowest levels of single events, above `level`: `http_request=warning`, `task_started=off`."""
    format: LogFormat = LogFormat.CONSOLE
    """The format of log lines."""
    file: Path | None = None
    """File for the log, which processes on one machine may share; without it, lines go to standard
    error."""
    rotate_mb: Annotated[int, Meta(ge=0, le=1024 * 1024)] = 0
    """Size in MiB at which the file is renamed to `NAME.1`; 0 leaves that to other programs."""
    rotate_kept: Annotated[int, Meta(ge=0, le=1000)] = 5
    """Number of renamed files that are kept."""
    sample_reads: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Share of the successful GET and HEAD requests that are logged; failures and all other methods
    are always logged."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The audit log in the ledger."""

    log: bool = True
    """Record who changed what; the same for all processes with the ledger."""
    log_keep_days: Annotated[int, Meta(ge=0, le=36_500)] = 400
    """Days for which entries are kept; 0 keeps them for ever."""


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Metrics for Prometheus."""

    enabled: bool = True
    """Collect metrics, and serve them to administrators at /metrics of the API."""
    listen: Address | None = None
    """HOST:PORT that serves metrics and probes without authentication, in place of the API."""
    flavors: Annotated[tuple[str, ...], Meta(max_length=WATCHED_FLAVORS_MAX)] = ()
    """Names of the flavors whose slots are counted; by default up to 20 public ones."""


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Spans for OpenTelemetry; none are recorded without an endpoint."""

    endpoint: str | None = field(default=None, repr=False)  # it may contain an API key
    """URL that accepts spans as OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`."""
    sample_ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """The share of requests that are recorded if their caller sends no trace to continue."""

    def __post_init__(self) -> None:
        """Reject a malformed endpoint; the error does not quote it.

        Raises:
            InvalidInputError: the error names the key and the valid form.
        """
        if self.endpoint is None:
            return
        form = "http://HOST:PORT/PATH or https://..., without a user or password"
        if not _ENDPOINT.fullmatch(self.endpoint):
            raise InvalidInputError("tracing.endpoint", f"must be {form}")
        check_server_url(self.endpoint, "tracing.endpoint", {"http", "https"}, form)


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """The conditions under which a process is ready, and silent hosts count as down."""

    lag_s_max: Annotated[float, Meta(gt=0, le=86_400)] = 10.0
    """Maximum time in seconds since the replica of a ready process last equalled the ledger;
    `/readyz` is 503 after that."""
    silent_share_max: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Share of the hosts that may fall silent at once and count as down, the same in all APIs and
    schedulers. If more do, requests that find no host wait, and evacuations must be forced."""
    needs_broker: bool | None = None
    """Whether readiness requires the broker. By default schedulers require it, and agents that use
    the ledger; an API does not, because it can leave orders in the ledger."""
