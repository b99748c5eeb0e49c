"""Tracing with the SDK of OpenTelemetry; spans are sent to a collector as OTLP over HTTP.

The trace id is derived from the request id. Agents, and a scheduler that takes over a pending
request, thus add spans to the same trace although no context was passed to them. If a client sends
a `traceparent`, the spans of the API and of the schedulers that the API calls belong to the
client's trace.
"""

import hashlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from berth import __version__
from berth.ports.bus import CONTEXT, Context
from berth.ports.telemetry import Span

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KINDS: Final = {"http": SpanKind.SERVER}
_HALF: Final = (1 << 64) - 1


class _Origin(NamedTuple):
    """The trace id derived from a request id, and the id of its root span."""

    trace_id: int
    span_id: int


class OtelTracer:
    """Records spans; see the port `Tracer`.

    Args:
        part: the part of Berth that the process runs (`scheduler`).
        exporter: exports the spans; it is called in a background thread.
        sample_ratio: the fraction of the traces started here that are recorded, between 0 and 1.
            Processes with the same ratio make the same choice for each trace.
    """

    def __init__(self, part: str, exporter: SpanExporter, *, sample_ratio: float = 1.0) -> None:
        self._ids = _ChosenIds()
        self._ratio = TraceIdRatioBased(sample_ratio)
        self._provider = TracerProvider(
            sampler=ParentBased(root=self._ratio),
            resource=Resource.create(
                {"service.name": f"berth-{part}", "service.version": __version__}
            ),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("berth", __version__)

    @contextmanager
    def span(
        self, name: str, *, request_id: str | None = None, begins: bool = False
    ) -> Generator[Span]:
        """See `Tracer.span`."""
        around = CONTEXT.get()
        within = self._begin(name, around, request_id, begins=begins)
        context = within.get_span_context()
        header = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
        token = CONTEXT.set(Context(request_id or around.request_id, around.deadline_s, header))
        try:
            yield _PortSpan(within)
        except BaseException as error:
            # Error messages may contain client data, so only the type is recorded.
            within.set_attribute("error.type", type(error).__name__)
            within.set_status(StatusCode.ERROR)
            raise
        finally:
            within.end()
            CONTEXT.reset(token)

    def close(self) -> None:
        """Export the remaining spans, and stop the exporter."""
        self._provider.shutdown()

    def _begin(
        self, name: str, around: Context, request_id: str | None, *, begins: bool
    ) -> trace.Span:
        is_same = request_id is None or around.request_id == request_id
        above = _parent_of(around.traceparent) if is_same else None
        named = request_id or around.request_id
        if above is None and named is not None:
            origin = _origin_of(named)
            if begins:
                self._ids.choose(origin)
            else:
                above = self._remote(origin)
        context = (
            OtelContext()
            if above is None
            else set_span_in_context(NonRecordingSpan(above), OtelContext())
        )
        return self._tracer.start_span(
            name, context=context, kind=_KINDS.get(name, SpanKind.INTERNAL)
        )

    def _remote(self, origin: _Origin) -> SpanContext:
        """Return the root span of a trace that another process started.

        This process does not know whether that span was sampled, so it computes the same decision
        from the ratio.
        """
        verdict = self._ratio.should_sample(None, origin.trace_id, "").decision
        is_sampled = verdict is Decision.RECORD_AND_SAMPLE
        flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
        return SpanContext(origin.trace_id, origin.span_id, is_remote=True, trace_flags=flags)


def otlp_exporter(endpoint: str) -> SpanExporter:
    """Return an exporter that sends spans to the URL of a collector."""
    return OTLPSpanExporter(endpoint=endpoint)


class _PortSpan:
    """A span of the SDK, adapted to the port `Span`."""

    def __init__(self, within: trace.Span) -> None:
        self._within = within

    def note(self, name: str, value: str | float) -> None:
        """See `Span.note`."""
        self._within.set_attribute(name, value)


class _ChosenIds(IdGenerator):
    """Generates random ids, except for a root span whose ids were chosen beforehand."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self._next: _Origin | None = None

    def choose(self, origin: _Origin) -> None:
        """Choose the ids of the next span, which must start a trace."""
        self._next = origin

    def generate_trace_id(self) -> int:
        """Return the chosen trace id, or a random one if none was chosen."""
        return self._random.generate_trace_id() if self._next is None else self._next.trace_id

    def generate_span_id(self) -> int:
        """Return the chosen span id and discard the choice, or a random id if none was chosen."""
        chosen, self._next = self._next, None
        return self._random.generate_span_id() if chosen is None else chosen.span_id


def _origin_of(request_id: str) -> _Origin:
    found = _UUID.search(request_id)
    digits = (
        found.group().replace("-", "")
        if found
        else hashlib.sha256(request_id.encode()).hexdigest()[:32]
    )
    trace_id = int(digits, 16) or 1
    return _Origin(trace_id, (trace_id >> 64 ^ trace_id) & _HALF or 1)


def _parent_of(traceparent: str | None) -> SpanContext | None:
    """Return the parent span that a W3C `traceparent` header names, or None if it is invalid."""
    parts = (traceparent or "").split("-")
    try:
        _, trace_id, span_id, flags = (int(part, 16) for part in parts)
    except ValueError:
        return None
    above = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return above if above.is_valid else None
