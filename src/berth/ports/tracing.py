"""Tracing: what was done for one request, where, and how long each part of it took."""

from contextlib import AbstractContextManager
from typing import Protocol


class Span(Protocol):
    """One part of the work, while it goes on."""

    def note(self, name: str, value: str | float) -> None:
        """Tell something about it. Values never hold secrets."""
        ...


class Tracer(Protocol):
    """Records spans. A span belongs to the one that `CONTEXT`'s traceparent names.

    What runs within a span has it as the traceparent of its `CONTEXT`, so that commands and
    whatever else carries that make the spans at the other end its children.
    """

    def span(
        self, name: str, *, request_id: str | None = None, begins: bool = False
    ) -> AbstractContextManager[Span]:
        """Begin a span that ends with the context; an error that passes is noted.

        Args:
            name: what is done, the same for all that do it.
            request_id: of the request that it is done for. Where `CONTEXT` is about another one,
                or has no traceparent, the span belongs to the trace that the id itself names.
            begins: the request begins here, so nothing is above the span in that trace.
        """
        ...
