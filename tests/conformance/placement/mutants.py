"""Mutants of Placement with one broken behaviour each, which the suite must detect.

Each mutant is a function that changes an answer of the real Placement.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

Environ = dict[str, Any]
StartResponse = Callable[..., object]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: status line, headers, body."""

    status: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def without(self, name: str) -> "Answer":
        """Return the answer without a header."""
        return replace(
            self, headers=tuple(pair for pair in self.headers if pair[0].lower() != name)
        )

    def changed(self, change: Callable[[Any], Any]) -> "Answer":
        """Return the answer with its JSON body changed; another body is left unchanged."""
        try:
            document = json.loads(self.body)
        except ValueError:
            return self
        body = json.dumps(change(document)).encode()
        length = ("Content-Length", str(len(body)))
        plain = self.without("content-length")
        return replace(plain, headers=(*plain.headers, length), body=body)


def _everywhere(change: Callable[[str, Any], Any], document: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the document with the values of all keys changed, at any depth."""
    if isinstance(document, dict):
        return {key: change(key, _everywhere(change, one)) for key, one in document.items()}
    if isinstance(document, list):
        return [_everywhere(change, one) for one in document]
    return document


def _raises_no_generation(environ: Environ, answer: Answer) -> Answer:
    """Report generation 0 for every provider."""

    def stays(key: str, value: Any) -> Any:  # noqa: ANN401 - JSON
        return 0 if key in {"generation", "resource_provider_generation"} else value

    return answer.changed(lambda document: _everywhere(stays, document))


def _refuses_wrongly(environ: Environ, answer: Answer) -> Answer:
    """Turn status 409 into 400."""
    return replace(answer, status="400 Bad Request") if answer.status[:3] == "409" else answer


def _does_not_vary(environ: Environ, answer: Answer) -> Answer:
    """Remove the Vary header."""
    return answer.without("vary")


def _gives_no_code(environ: Environ, answer: Answer) -> Answer:
    """Remove the codes of errors."""

    def strip(document: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(document, dict):
            for error in document.get("errors", ()):
                error.pop("code", None)
        return document

    return answer.changed(strip)


def _finds_one_candidate(environ: Environ, answer: Answer) -> Answer:
    """Keep only the first allocation candidate."""

    def first(key: str, value: Any) -> Any:  # noqa: ANN401 - JSON
        return value[:1] if key == "allocation_requests" else value

    return answer.changed(lambda document: _everywhere(first, document))


def _lets_everybody_in(environ: Environ, answer: Answer) -> Answer:
    """Turn status 403 into 404."""
    return replace(answer, status="404 Not Found") if answer.status[:3] == "403" else answer


def _allows_any_origin(environ: Environ, answer: Answer) -> Answer:
    """Allow every origin by CORS."""
    plain = answer.without("access-control-allow-origin")
    allowed = ("Access-Control-Allow-Origin", environ.get("HTTP_ORIGIN", "*"))
    return replace(plain, headers=(*plain.headers, allowed))


MUTANTS: dict[str, Callable[[Environ, Answer], Answer]] = {
    "generation-stays": _raises_no_generation,
    "conflict-is-400": _refuses_wrongly,
    "no-vary": _does_not_vary,
    "no-error-code": _gives_no_code,
    "one-candidate": _finds_one_candidate,
    "forbidden-is-404": _lets_everybody_in,
    "any-origin": _allows_any_origin,
}


def mutated(name: str, application: Application) -> Application:
    """Return a WSGI application like the given one, with one behaviour broken."""
    change = MUTANTS[name]

    def broken(environ: Environ, start_response: StartResponse) -> list[bytes]:
        started: list[tuple[str, list[tuple[str, str]]]] = []
        parts = application(environ, lambda status, headers, *_: started.append((status, headers)))
        status, headers = started[0]
        answer = change(environ, Answer(status, tuple(headers), b"".join(parts)))
        start_response(answer.status, list(answer.headers))
        return [answer.body]

    return broken
