"""Spans, as the SDK of OpenTelemetry exports them."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from berth.adapters.tracing_otel import OtelTracer
from berth.ports.bus import CONTEXT, Context

ID = "req-0af76519-16cd-43dd-8448-eb211c80319c"
TRACE = 0x0AF7651916CD43DD8448EB211C80319C


class Kept:
    """A tracer whose finished spans can be read."""

    def __init__(self, sample_ratio: float = 1.0) -> None:
        CONTEXT.set(Context())
        self.exporter = InMemorySpanExporter()
        self.tracer = OtelTracer("test", self.exporter, sample_ratio=sample_ratio)

    def spans(self) -> dict[str, ReadableSpan]:
        """Close the tracer and return all spans that have ended, by name."""
        self.tracer.close()
        return {span.name: span for span in self.exporter.get_finished_spans()}


def ids_of(span: ReadableSpan) -> tuple[int, int]:
    """Return the ids of the trace and of the span."""
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def above(span: ReadableSpan) -> int | None:
    """Return the id of the parent span, or None."""
    return None if span.parent is None else span.parent.span_id


def test_the_request_id_names_the_trace() -> None:
    """Two processes derive the same trace from the request id without exchanging a header."""
    api, agent = Kept(), Kept()
    with api.tracer.span("http", request_id=ID, begins=True):
        pass
    with agent.tracer.span("agent spawning", request_id=f"{ID}.0.1"):
        pass
    http, spawning = api.spans()["http"], agent.spans()["agent spawning"]
    assert ids_of(http)[0] == ids_of(spawning)[0] == TRACE
    assert above(http) is None
    assert above(spawning) == ids_of(http)[1]


def test_spans_are_within_one_another() -> None:
    """A nested span has the outer one as its parent, and the context names the innermost span."""
    kept = Kept()
    with kept.tracer.span("place", request_id=ID), kept.tracer.span("claim"):
        header = CONTEXT.get().traceparent
    assert CONTEXT.get() == Context()
    spans = kept.spans()
    assert above(spans["claim"]) == ids_of(spans["place"])[1]
    trace_id, span_id = ids_of(spans["claim"])
    assert header == f"00-{trace_id:032x}-{span_id:016x}-01"


def test_a_callers_trace_goes_on() -> None:
    """The span of the API is a child of the caller's span."""
    kept = Kept()
    CONTEXT.set(Context(ID, None, f"00-{'a' * 32}-{'b' * 16}-01"))
    with kept.tracer.span("http", request_id=ID, begins=True):
        pass
    span = kept.spans()["http"]
    assert ids_of(span)[0] == int("a" * 32, 16)
    assert above(span) == int("b" * 16, 16)


def test_work_for_another_request_is_in_its_own_trace() -> None:
    """A span for another request than the context's is in the trace of its own request."""
    kept = Kept()
    CONTEXT.set(Context("req-other", None, f"00-{'a' * 32}-{'b' * 16}-01"))
    with kept.tracer.span("agent spawning", request_id=ID):
        pass
    assert ids_of(kept.spans()["agent spawning"])[0] == TRACE


def test_an_error_is_told_by_its_kind() -> None:
    """The span has the type of the error but not its text, which may contain secrets."""
    kept = Kept()
    with pytest.raises(ValueError, match="hunter2"), kept.tracer.span("decide"):
        raise ValueError("password hunter2")
    span = kept.spans()["decide"]
    assert span.attributes is not None
    assert span.attributes["error.type"] == "ValueError"
    assert "hunter2" not in span.to_json()


@pytest.mark.parametrize("header", ["", "00", "00-x-y-z", f"00-{'0' * 32}-{'b' * 16}-01", "-" * 9])
def test_what_is_no_trace_counts_for_nothing(header: str) -> None:
    """An invalid traceparent is ignored, and the span belongs to the trace of its request id."""
    kept = Kept()
    CONTEXT.set(Context(ID, None, header))
    with kept.tracer.span("place", request_id=ID) as span:
        span.note("berth.instances", 2)
    assert ids_of(kept.spans()["place"])[0] == TRACE


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_all_processes_record_the_same_traces(ratio: float) -> None:
    """Two processes with the same ratio sample the same traces, so a kept trace is complete."""
    for number in range(20):
        request_id = f"req-{number:08x}-0000-4000-8000-{number * 7919 * 2**31 % 2**48:012x}"
        api, agent = Kept(ratio), Kept(ratio)
        with api.tracer.span("http", request_id=request_id, begins=True):
            pass
        CONTEXT.set(Context())
        with agent.tracer.span("agent", request_id=request_id):
            pass
        assert bool(api.spans()) == bool(agent.spans())
