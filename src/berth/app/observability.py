"""The observability of a process: metrics, health probes and spans."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp

from berth import __version__
from berth.adapters.http_connections import ConnectionLimit
from berth.adapters.http_server import ConnectionPolicy, listening, serve_beside
from berth.adapters.metrics_prometheus import PrometheusMetrics
from berth.adapters.system import SystemClock, raise_file_limit
from berth.api.access_log import AccessLog
from berth.api.auth.authentication import Auth
from berth.api.observed import Observed, RequestMetrics, RequestWatcher
from berth.api.probes import MetricsPage, Probes, nothing_else
from berth.app.extras import needs_extra
from berth.app.run import Loop
from berth.config.api_settings import ApiSettings
from berth.config.setting_values import Address
from berth.config.settings import Settings
from berth.config.settings_changes import changed_settings
from berth.config.telemetry_settings import TracingSettings
from berth.domain.compute.decision import Verdict
from berth.domain.errors import InvalidInputError
from berth.ports.measures import (
    CLAIMS,
    COMMIT_SECONDS,
    COMMIT_UNITS,
    DECISIONS,
    HTTP_CONNECTIONS_CLOSED,
)
from berth.ports.observer import NO_OBSERVER, Observer
from berth.ports.telemetry import Telemetry, Tracer
from berth.services.replica.scheduler_reports import LOST, PLACED, REFUSED
from berth.services.telemetry.health import Health
from berth.services.telemetry.log_observer import LogObserver
from berth.services.telemetry.observers import (
    LOST_CLAIMS,
    CombinedObserver,
    MetricsObserver,
    SpanObserver,
)

_TELL_AGAIN_NS: Final = 60 * 1_000_000_000


class _ClosedConnections:
    """Counts the connections that a limit closes, and logs their number at most once a minute."""

    def __init__(
        self,
        connections_max: int,
        remedy: str,
        metrics: PrometheusMetrics | None,
        telemetry: Telemetry,
        clock: SystemClock,
    ) -> None:
        self._connections_max = connections_max
        self._remedy = remedy
        self._metrics = metrics
        self._telemetry = telemetry
        self._clock = clock
        self._count = 0
        self._tell_after_ns = clock.ticks_ns()

    def note(self, outcome: str) -> None:
        """Count a closed connection."""
        if self._metrics is not None:
            self._metrics.add(HTTP_CONNECTIONS_CLOSED, (outcome,))
        self._count += 1
        now_ns = self._clock.ticks_ns()
        if now_ns >= self._tell_after_ns:
            self._tell_after_ns = now_ns + _TELL_AGAIN_NS
            self._telemetry.event(
                "http_connections_closed",
                count=self._count,
                connections_max=self._connections_max,
                remedy=self._remedy,
            )
            self._count = 0


def _nothing() -> None:
    """Do nothing: without an exporter there is nothing to flush."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The metrics, spans and probes of a process.

    Attributes:
        clock: measures the duration of HTTP requests.
        metrics: the metrics, or None when they are off.
        tracer: records spans, or None when tracing is off.
        listen: the address of a separate server for metrics and probes, or None if only the API
            serves them.
        finish: sends the remaining spans, which may take seconds; call it at the end.
        observer: receives the events of all services.
        watchers: are told of each HTTP request, after the metrics.
    """

    clock: SystemClock
    metrics: PrometheusMetrics | None = None
    tracer: Tracer | None = None
    listen: Address | None = None
    finish: Callable[[], None] = _nothing
    observer: Observer = NO_OBSERVER
    watchers: tuple[RequestWatcher, ...] = ()

    def scheduling_counts(self) -> dict[str, int]:
        """Return the counts of decisions and lost claims so far; nothing if metrics are off."""
        if self.metrics is None:
            return {}
        verdicts: Counter[str] = Counter()
        for (_, verdict), count in self.metrics.counted(DECISIONS).items():
            verdicts[verdict] += int(count)
        claims = self.metrics.counted(CLAIMS).items()
        lost = sum(int(count) for (outcome,), count in claims if outcome in LOST_CLAIMS)
        return {
            PLACED: verdicts[Verdict.PLACED],
            REFUSED: verdicts[Verdict.REFUSED],
            LOST: lost,
        }

    @property
    def on_batch(self) -> Callable[[int, float], None] | None:
        """The callback for the ledger's committed batches, or None if metrics are off."""
        metrics = self.metrics
        if metrics is None:
            return None

        def count(units: int, seconds: float) -> None:
            metrics.observe(COMMIT_UNITS, units)
            metrics.observe(COMMIT_SECONDS, seconds)

        return count

    def page(self, auth: Auth) -> MetricsPage | None:
        """Return the API's metrics page, or None if metrics are off or have a separate address."""
        if self.metrics is None or self.listen is not None:
            return None
        return MetricsPage(self.metrics, auth)

    def connections(self, settings: ApiSettings, telemetry: Telemetry) -> ConnectionPolicy:
        """Return the connection policy of an API; the connections that it closes are logged."""
        # The other half of the files is for connections of agents, the ledger and the broker.
        connections_max, files_max = settings.connections_max, raise_file_limit() // 2
        remedy = "raise api.connections_max, or limit the connections of each client"
        if files_max < connections_max:
            connections_max = files_max
            remedy = "raise the limit on open files of the process (LimitNOFILE in systemd)"
        closed = _ClosedConnections(connections_max, remedy, self.metrics, telemetry, self.clock)
        limit = ConnectionLimit(connections_max, closed.note)
        return ConnectionPolicy(settings.trusted_proxies, limit)

    def around(self, app: ASGIApp, more: Sequence[RequestWatcher] = ()) -> ASGIApp:
        """Return an application that also measures and logs requests, and tells `more` of them."""
        watchers: list[RequestWatcher] = []
        if self.metrics is not None:
            watchers.append(RequestMetrics(self.metrics))
        watchers += [*self.watchers, *more]
        return Observed(app, self.clock, watchers) if watchers else app

    def loops(self, health: Health) -> list[Loop]:
        """Register the gauges, and return the loop of the separate server, if there is one.

        Raises:
            InvalidInputError: the address is in use, or is not an address of this machine.
        """
        if self.metrics is not None:
            self.metrics.watch(health.read)
        if self.listen is None:
            return []
        page = None if self.metrics is None else MetricsPage(self.metrics)
        app = Probes(nothing_else, health, page)
        # The socket is bound here rather than in the loop, so that an address in use stops the
        # process at its start.
        listener = listening(self.listen.host, self.listen.port)

        async def serve() -> None:
            # The server closes its socket when it stops, but the supervisor may call this again, so
            # each call uses a duplicate.
            await serve_beside(app, listener.dup())

        return [("probes", serve)]


def observe(settings: Settings, part: str, clock: SystemClock, telemetry: Telemetry) -> Observation:
    """Return the observability of a process, created from its settings; log its start.

    Args:
        settings: the settings of the process.
        part: the kind of process (`scheduler`).
        clock: the clock of the process.
        telemetry: the log of the process.

    Raises:
        InvalidInputError: tracing is on but its exporter is not installed.
    """
    telemetry.event("process_started", version=__version__, settings=changed_settings(settings))
    metrics = PrometheusMetrics() if settings.metrics.enabled else None
    # The tracer starts a thread, so nothing after it may fail and leave the thread behind.
    tracer, finish = _tracer_of(settings.tracing, part)
    observer = _observer_of(metrics, tracer, telemetry)
    access_log = AccessLog(telemetry, sample_reads=settings.log.sample_reads)
    listen = settings.metrics.listen
    return Observation(clock, metrics, tracer, listen, finish, observer, (access_log,))


def _observer_of(
    metrics: PrometheusMetrics | None, tracer: Tracer | None, telemetry: Telemetry
) -> Observer:
    observers: list[Observer] = []
    if tracer is not None:
        # The span observer comes first, so that a span includes the time to count the metrics.
        observers.append(SpanObserver(tracer))
    if metrics is not None:
        observers.append(MetricsObserver(metrics))
    observers.append(LogObserver(telemetry))
    return observers[0] if len(observers) == 1 else CombinedObserver(observers)


def _tracer_of(settings: TracingSettings, part: str) -> tuple[Tracer | None, Callable[[], None]]:
    if settings.endpoint is None:
        return None, _nothing
    try:
        from berth.adapters import tracing_otel  # noqa: PLC0415 - an extra that few need
    except ModuleNotFoundError as error:
        raise InvalidInputError("tracing.endpoint", needs_extra(error, "telemetry")) from error
    exporter = tracing_otel.otlp_exporter(settings.endpoint)
    tracer = tracing_otel.OtelTracer(part, exporter, sample_ratio=settings.sample_ratio)
    return tracer, tracer.close
