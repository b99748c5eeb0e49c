"""Requests to Open Attestation, and the reading of its answers."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from berth.adapters.open_attestation import AttestationAccess, OpenAttester
from berth.domain.compute.host import Attestation
from berth.domain.errors import InvalidInputError, UnavailableError

NOW_S = 1_795_262_400.0
"""2026-11-21T12:00:00Z."""

ACCESS = AttestationAccess(
    "https://attester.example:8443/OpenAttestationWebServices/V1.0/", "a secret"
)


class FixedClock:
    """A clock whose time does not change."""

    def now_s(self) -> float:
        """Return the fixed time."""
        return NOW_S

    def ticks_ns(self) -> int:
        """Return 0."""
        return 0

    async def sleep(self, seconds: float) -> None:
        """Return immediately."""


def attester(answer: Callable[[httpx.Request], httpx.Response]) -> OpenAttester:
    """Return an attester whose requests are answered by a function."""
    return OpenAttester(ACCESS, FixedClock(), valid_s=60, transport=httpx.MockTransport(answer))


def states(*rows: tuple[str, str, str]) -> Callable[[httpx.Request], httpx.Response]:
    """Return a handler that answers with these hosts, levels and times."""
    names = ("host_name", "trust_lvl", "vtime")
    hosts = [dict(zip(names, row, strict=True)) for row in rows]
    return lambda request: httpx.Response(200, json={"hosts": hosts})


async def test_a_question_names_the_nodes_and_the_secret() -> None:
    """The request has the form of Nova's, with the nodes in the body and the secret in a header."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"hosts": []})

    assert await attester(answer).attest(["a", "b"]) == {}
    (request,) = seen
    url = "https://attester.example:8443/OpenAttestationWebServices/V1.0/PollHosts"
    assert (request.method, str(request.url)) == ("POST", url)
    assert json.loads(request.content) == {"count": 2, "hosts": ["a", "b"]}
    assert request.headers["x-auth-blob"] == "a secret"


@pytest.mark.parametrize(
    ("vtime", "expected"),
    [
        ("2026-11-21T12:00:00Z", Attestation("trusted", NOW_S + 60)),
        ("2026-11-21T12:00:00", Attestation("trusted", NOW_S + 60)),
        ("2026-11-21T11:59:30+00:00", Attestation("trusted", NOW_S + 30)),
        ("2026-11-21T13:59:50+02:00", Attestation("trusted", NOW_S + 50)),
        ("Sat Nov 21 11:59:50 2026", Attestation("trusted", NOW_S + 50)),
        ("2026-11-21T11:00:00Z", Attestation("trusted", NOW_S - 3540)),
        ("2099-01-01T00:00:00Z", Attestation("trusted", NOW_S + 60)),
        ("yesterday", Attestation("unknown", NOW_S + 60)),
        ("", Attestation("unknown", NOW_S + 60)),
    ],
)
async def test_a_level_counts_from_its_validation(vtime: str, expected: Attestation) -> None:
    """A future time counts as now, and an unreadable time makes the level unknown."""
    found = await attester(states(("a", "trusted", vtime))).attest(["a"])
    assert found == {"a": expected}


async def test_the_last_of_two_answers_counts_and_others_are_dropped() -> None:
    """Hosts that were not asked about are dropped from the answer."""
    answer = states(("a", "trusted", ""), ("a", "untrusted", ""), ("b", "trusted", ""))
    found = await attester(answer).attest(["a"])
    assert list(found) == ["a"]


def down(request: httpx.Request) -> httpx.Response:
    """Raise a connection error."""
    raise httpx.ConnectError("connection refused")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (down, "connection refused"),
        (lambda request: httpx.Response(500), "500"),
        (lambda request: httpx.Response(302, headers={"location": "http://evil/"}), "302"),
        (lambda request: httpx.Response(200, text="nonsense"), "invalid response"),
        (lambda request: httpx.Response(200, json={"hosts": None}), "invalid response"),
        (
            lambda request: httpx.Response(200, json={"hosts": [{"host_name": 1}]}),
            "invalid response",
        ),
        (lambda request: httpx.Response(200, content=b" " * (1024 * 1024 + 1)), "bytes"),
    ],
)
async def test_what_goes_wrong_is_one_error(
    answer: Callable[[httpx.Request], httpx.Response], reason: str
) -> None:
    """Every failure raises an UnavailableError with its reason; redirections are not followed."""
    with pytest.raises(UnavailableError, match=reason):
        await attester(answer).attest(["a"])


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    """A missing or invalid CA file is refused when the attester is created."""
    for file in (tmp_path / "nowhere.pem", tmp_path / "empty.pem"):
        (tmp_path / "empty.pem").write_text("nothing")
        with pytest.raises(InvalidInputError, match=r"attestation\.ca_file"):
            OpenAttester(AttestationAccess("https://a", ca_file=file), FixedClock())
