"""Each mutant breaks one behaviour and leaves other answers alone."""

import json
from typing import Any

import pytest

from tests.conformance.placement.mutants import MUTANTS, Environ, StartResponse, mutated

Said = tuple[str, dict[str, str], bytes]


def asked(name: str, status: str, headers: dict[str, str], body: bytes) -> Said:
    """Return the answer of a mutant of an application that always gives this answer."""

    def application(environ: Environ, start_response: StartResponse) -> list[bytes]:
        start_response(status, list(headers.items()))
        return [body[:3], body[3:]]

    started: list[tuple[str, list[tuple[str, str]]]] = []
    parts = mutated(name, application)({}, lambda *said: started.append(said))
    return started[0][0], dict(started[0][1]), b"".join(parts)


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"name": "x"}'])
def test_what_a_mutant_is_not_about_stays(name: str, body: bytes) -> None:
    """A mutant leaves status, type and body of an unrelated answer unchanged."""
    status, headers, text = asked(name, "200 OK", {"Content-Type": "text"}, body)
    assert status == "200 OK"
    assert headers["Content-Type"] == "text"
    assert text == body


def document(name: str, given: object) -> Any:  # noqa: ANN401 - JSON, of any shape
    """Return what a mutant makes of a JSON document."""
    _, headers, body = asked(name, "200 OK", {}, json.dumps(given).encode())
    assert headers["Content-Length"] == str(len(body))
    return json.loads(body)


def test_generations_stay_at_any_depth() -> None:
    """Generations in nested lists and objects become 0; other numbers are unchanged."""
    given = {"resource_provider_generation": 5, "all": [{"generation": 3, "total": 8}]}
    expected = {"resource_provider_generation": 0, "all": [{"generation": 0, "total": 8}]}
    assert document("generation-stays", given) == expected


def test_one_candidate_is_left() -> None:
    """Only the first allocation request is left."""
    given = {"allocation_requests": [1, 2, 3], "provider_summaries": {}}
    expected = {"allocation_requests": [1], "provider_summaries": {}}
    assert document("one-candidate", given) == expected


def test_errors_lose_their_code() -> None:
    """Errors lose their code and keep their other fields."""
    given = {"errors": [{"status": 409, "code": "placement.duplicate_name"}]}
    assert document("no-error-code", given) == {"errors": [{"status": 409}]}


@pytest.mark.parametrize(
    ("name", "status", "expected"),
    [("conflict-is-400", "409 Conflict", "400"), ("forbidden-is-404", "403 Forbidden", "404")],
)
def test_a_status_is_another(name: str, status: str, expected: str) -> None:
    """The mutants of statuses answer with the other status."""
    assert asked(name, status, {}, b"x")[0].startswith(expected)


def test_headers_come_and_go() -> None:
    """The mutants of headers remove Vary in any case, and add an allowed origin."""
    assert asked("no-vary", "200 OK", {"Vary": "x", "Age": "1"}, b"")[1] == {"Age": "1"}
    assert asked("any-origin", "200 OK", {}, b"")[1] == {"Access-Control-Allow-Origin": "*"}
