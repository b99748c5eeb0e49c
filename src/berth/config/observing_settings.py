"""Settings of what is shown and told about a process."""

import re
from dataclasses import dataclass, field
from typing import Annotated, Final

from msgspec import Meta

from berth.domain.errors import InvalidInputError

_ENDPOINT: Final = re.compile(r"https?://[^/@\s]+(/[^@\s]*)?")


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Metrics for Prometheus."""

    enabled: bool = True
    """Count, and show it to administrators at /metrics of the API."""
    listen: Annotated[str, Meta(pattern=r"^.+:[0-9]{1,5}$")] | None = None
    """HOST:PORT of their own for metrics and probes, without a login, instead of at the API."""


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Spans for OpenTelemetry; without an endpoint there are none."""

    endpoint: str | None = field(default=None, repr=False)  # somebody may put a key in it
    """URL that takes spans as OTLP over HTTP, `http://127.0.0.1:4318/v1/traces` say."""
    sample_ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """How many of the requests without a caller's trace are recorded."""

    def __post_init__(self) -> None:
        """Refuse what is no endpoint, without a word of the URL.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        if self.endpoint is not None and not _ENDPOINT.fullmatch(self.endpoint):
            reason = "must be http:// or https://HOST:PORT/PATH, without a user or password"
            raise InvalidInputError("tracing.endpoint", reason)


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """When a process counts as ready."""

    lag_s_max: Annotated[float, Meta(gt=0, le=86_400)] = 10.0
    """How long ago its replica may have been true to the ledger last."""
    needs_broker: bool | None = None
    """Whether it is ready without its broker; unset: schedulers and agents are not, and an API is,
    since it leaves orders in the ledger then."""
