"""Credentials, repetitions, time limits and errors of both clients, and what they load."""

import asyncio
import base64
import inspect
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from berth.client import (
    NO_RETRIES,
    AsyncClient,
    AuthError,
    BadRequestError,
    Client,
    ClientError,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    NotFoundError,
    Retries,
    TooManyRequestsError,
    UnavailableError,
    UnreadableAnswerError,
)

URL = "http://berth.test"
_PROGRAM = """
import sys
from berth.client import Client
with Client("http://127.0.0.1:9") as berth:
    berth.hosts, berth.decisions
print("\\n".join(sys.modules))
"""
# httpx loads click and rich by itself, for its own command.
_HEAVY = {"alembic", "asyncpg", "jsonschema", "numpy", "sqlalchemy", "starlette", "uvicorn"}
QUICK = Retries(attempts=3, first_s=0.0, last_s=1.0)
BUSY = httpx.Response(503, json={"serviceUnavailable": {"code": 503, "message": "later"}})
POLICY = {
    "name": "p",
    "hash": "h",
    "driver": "filter",
    "host_subset_size": 1,
    "contended_subset_size": 1,
    "shuffle_best_same_weighed_hosts": False,
    "runners_up": 3,
    "filters": [],
    "weighers": [],
    "last_error": None,
    "a_field_of_a_newer_service": {"x": [1]},
}


class Script:
    """A service that answers with the given responses, one after another, and keeps requests."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Return the next response, or the last one again."""
        self.asked.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def client(script: Script, **options: object) -> Client:
    """Return a blocking client of a script."""
    given: Any = {"retries": QUICK, **options}
    return Client(URL, transport=httpx.MockTransport(script), **given)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequestError),
        (401, AuthError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (413, BadRequestError),
        (418, ClientError),
        (429, TooManyRequestsError),
        (500, ClientError),
        (503, UnavailableError),
    ],
)
def test_an_error_has_its_type_and_its_details(status: int, kind: type[ClientError]) -> None:
    """Status, name, message and request id of the service are attributes, and in the text."""
    fault = {"someFault": {"code": status, "message": "why not"}}
    headers = {"x-openstack-request-id": "req-7"}
    script = Script(httpx.Response(status, json=fault, headers=headers))
    with pytest.raises(ClientError) as caught:
        client(script, retries=NO_RETRIES).hosts.get("h/1")
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.message) == (status, "someFault", "why not")
    assert (error.request_id, error.method) == ("req-7", "GET")
    assert str(error) == f"why not (GET /berth/v1/hosts/h%2F1: {status}, request req-7)"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (httpx.Response(502, text="<html>bad gateway"), "<html>bad gateway"),
        (httpx.Response(502), "Bad Gateway"),
        (httpx.Response(499), "the response is an error without a message"),
        (httpx.Response(500, json={"odd": 3}), '{"odd":3}'),
        (httpx.Response(500, json=[1]), "[1]"),
    ],
)
def test_an_error_of_another_form_has_the_text_of_its_body(
    answer: httpx.Response, message: str
) -> None:
    """The page of a proxy, or the phrase of the status, is the message."""
    with pytest.raises(ClientError) as caught:
        client(Script(answer), retries=NO_RETRIES).status()
    assert caught.value.message == message


def test_fields_of_a_newer_service_are_ignored_but_not_lost() -> None:
    """The value lacks them, and the documents have them, also those of lists."""
    berth = client(Script(httpx.Response(200, json=POLICY)))
    assert berth.policy.get().name == "p"
    assert berth.policy.get.document() == POLICY
    first = {"entries": [{"number": 2, "new": 1}], "marker": 2}
    script = Script(
        httpx.Response(200, json=first), httpx.Response(200, json={"entries": [], "marker": None})
    )
    assert list(client(script).audit_log.list.documents(user_id="ann")) == first["entries"]
    assert [one.url.params.get("before") for one in script.asked] == [None, "2"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"<html>", "is not JSON"), (b'{"name": "p"}', "has another form"), (b"", "is not JSON")],
)
def test_a_response_of_another_form_is_refused(content: bytes, reason: str) -> None:
    """A page of a proxy and a response without a needed field raise an error of the library."""
    with pytest.raises(UnreadableAnswerError, match=reason):
        client(Script(httpx.Response(200, content=content))).policy.get()


def test_the_document_of_any_version_can_be_read() -> None:
    """A JSON object with any fields is returned, and anything else is refused."""
    assert client(Script(httpx.Response(200, json={"name": "p"}))).policy.get.document() == {
        "name": "p"
    }
    with pytest.raises(UnreadableAnswerError, match="is not a JSON object"):
        client(Script(httpx.Response(200, json=[]))).policy.get.document()


@pytest.mark.parametrize("failure", [BUSY, httpx.ReadTimeout("slow"), httpx.ReadError("cut")])
def test_a_read_is_repeated(failure: httpx.Response | Exception) -> None:
    """A GET is sent again when the service is busy or does not answer."""
    script = Script(failure, failure, httpx.Response(200, json=POLICY))
    assert client(script).policy.get().name == "p"
    assert len(script.asked) == 3
    script = Script(failure)
    with pytest.raises(UnavailableError):
        client(script).policy.get()
    assert len(script.asked) == 3


def test_a_write_is_repeated_only_if_that_is_safe() -> None:
    """A POST is sent again with an idempotency key, or if it cannot have reached the service."""
    script = Script(httpx.ReadTimeout("slow"))
    with pytest.raises(UnavailableError, match="did not answer within 90 s"):
        client(script).policy.reload()
    assert len(script.asked) == 1
    with pytest.raises(UnavailableError):
        client(script).decisions.decide("small", idempotency_key="k")
    assert len(script.asked) == 1 + 3
    assert script.asked[-1].headers["Idempotency-Key"] == "k"
    script = Script(httpx.ConnectError("refused"))
    with pytest.raises(UnavailableError, match=r"cannot reach http://berth\.test"):
        client(script).policy.reload()
    assert len(script.asked) == 3


@pytest.mark.parametrize(("asked", "sent"), [("0", 3), ("1.5", 3), ("60", 1)])
def test_the_service_sets_the_pause(asked: str, sent: int) -> None:
    """A pause above the longest one ends the repetitions; one that is no number is ignored."""
    script = Script(httpx.Response(503, headers={"Retry-After": asked}))
    with pytest.raises(UnavailableError):
        client(script).policy.get()
    assert len(script.asked) == sent


def test_pauses_double_and_are_spread() -> None:
    """Each pause is between half of its length and all of it, and none exceeds the longest."""
    retries, random = Retries(first_s=1.0, last_s=5.0), Random(1)
    for attempt, longest_s in enumerate((1.0, 2.0, 4.0, 5.0, 5.0)):
        pauses = {retries.pause_s(attempt, random) for _ in range(50)}
        assert longest_s / 2 <= min(pauses) < max(pauses) <= longest_s


def test_credentials_are_sent() -> None:
    """HTTP Basic and tokens are sent with each request, as are the other headers."""
    script = Script(httpx.Response(200, json=POLICY))
    client(script, auth=("ann", "p")).policy.get()
    basic = base64.b64encode(b"ann:p").decode()
    assert script.asked[-1].headers["Authorization"] == f"Basic {basic}"
    client(script, auth="t1", global_request_id="req-g", headers={"X-More": "m"}).policy.get()
    sent = script.asked[-1].headers
    assert (sent["X-Auth-Token"], sent["X-More"]) == ("t1", "m")
    assert sent["X-OpenStack-Request-ID"] == "req-g"


def tokens() -> Callable[[], str]:
    """Return a function that returns a new token at each call."""
    count = iter(range(1, 100))
    return lambda: f"t{next(count)}"


def test_an_expired_token_is_renewed_once() -> None:
    """The function is called at first and after a 401; a new token that is refused is an error."""
    good, refused = httpx.Response(200, json=POLICY), httpx.Response(401)
    script = Script(good, refused, good)
    berth = client(script, auth=tokens())
    berth.policy.get()
    berth.policy.reload.document()
    assert [one.headers["X-Auth-Token"] for one in script.asked] == ["t1", "t1", "t2"]
    script = Script(refused)
    with pytest.raises(AuthError):
        client(script, auth=tokens()).policy.get()
    assert len(script.asked) == 1


async def test_the_asynchronous_client_renews_and_repeats() -> None:
    """Its function may be a coroutine function, and each of its calls is a coroutine."""
    new = tokens()

    async def renew() -> str:
        await asyncio.sleep(0)
        return new()

    good = httpx.Response(200, json=POLICY)
    script = Script(good, BUSY, httpx.Response(401), httpx.ReadError("cut"), good)
    transport = httpx.MockTransport(script)
    async with AsyncClient(URL, auth=renew, transport=transport, retries=QUICK) as berth:
        assert inspect.iscoroutinefunction(berth.policy.get.__call__)
        assert (await berth.policy.get()).name == "p"
        assert (await berth.policy.get.document())["name"] == "p"
    assert [one.headers["X-Auth-Token"] for one in script.asked] == ["t1", "t1", "t1", "t2", "t2"]


def test_a_stream_is_an_error_or_complete() -> None:
    """An error response is raised with its message, and so is a connection that breaks."""
    script = Script(httpx.Response(403, json={"forbidden": {"message": "not you"}}))
    with pytest.raises(ForbiddenError, match="not you"), client(script).state.stream():
        pass

    class Broken(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"{"
            raise httpx.ReadError("cut")

    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=Broken()))
    found: list[bytes] = []
    with (
        pytest.raises(UnavailableError, match="cut"),
        Client(URL, transport=transport).state.stream() as pieces,
    ):
        found.extend(pieces)
    assert found == [b"{"]


def test_a_wait_ends_at_its_deadline() -> None:
    """The service may be unavailable meanwhile; the error names what was waited for, and why."""
    script = Script(BUSY)
    with pytest.raises(DeadlineError, match=r"drain of h1 did not end within 0\.05 s.*later"):
        client(script, retries=NO_RETRIES).drains.wait("h1", timeout_s=0.05, poll_s=0.01)
    assert len(script.asked) > 1
    script = Script(httpx.Response(404))
    with pytest.raises(NotFoundError):
        client(script).drains.wait("h1", timeout_s=0.05)


def maintenance(state: str, moving: int) -> httpx.Response:
    """Return the maintenance of a host with a drain."""
    drain = {
        "state": state,
        "message": "",
        "migrate": "live",
        "parallel": 1,
        "deadline_s": None,
        "moves_locked": False,
        "started_at_s": 1.0,
        "ended_at_s": None,
        "counts": {"moving": moving},
        "servers": [],
    }
    found = {"host": "h1", "reason": "", "until_s": None, "started_at_s": 1.0, "is_ending": False}
    return httpx.Response(200, json=found | {"drain": drain})


async def test_a_wait_polls_until_the_end() -> None:
    """A stopped drain whose moves are in progress is not over, nor is one that cannot be read."""
    course = (
        maintenance("running", 1),
        httpx.Response(502),
        maintenance("stopped", 1),
        maintenance("stopped", 0),
    )
    script = Script(*course)
    found = client(script, retries=NO_RETRIES).drains.wait("h1", timeout_s=10, poll_s=0.001)
    assert found.drain is not None
    assert (found.drain.state, len(script.asked)) == ("stopped", 4)
    transport = httpx.MockTransport(Script(*course))
    async with AsyncClient(URL, transport=transport, retries=NO_RETRIES) as berth:
        assert await berth.drains.wait("h1", timeout_s=10, poll_s=0.001) == found


def test_an_operation_without_a_method_is_requested_by_its_path() -> None:
    """Its query, body and headers are sent, and the JSON object is returned."""
    script = Script(httpx.Response(200, json={"flavors": []}))
    found = client(script).request("GET", "/v2.1/flavors", query={"limit": 1, "marker": None})
    assert found == {"flavors": []}
    assert script.asked[-1].url.query == b"limit=1"
    client(script).request("POST", "/x", query="a=1&a=2", body={"b": 1}, headers={"X-H": "h"})
    assert (script.asked[-1].url.query, script.asked[-1].content) == (b"a=1&a=2", b'{"b":1}')
    assert script.asked[-1].headers["X-H"] == "h"


@pytest.mark.parametrize("url", ["ftp://x", "x:1", "http://", "http://u:s3same@h:port"])
def test_an_address_must_be_an_http_url(url: str) -> None:
    """The error shows no password."""
    with pytest.raises(ValueError, match="HTTP URL") as caught:
        Client(url)
    assert "s3same" not in str(caught.value)


def test_an_account_in_the_address_is_not_shown() -> None:
    """It is used for HTTP Basic, and errors hide it."""
    script = Script(httpx.ConnectError("refused"))
    transport = httpx.MockTransport(script)
    berth = Client("http://u:s3same@h:1/x", transport=transport, retries=NO_RETRIES)
    with pytest.raises(UnavailableError, match=r"http://\*\*\*@h:1/x") as caught:
        berth.status()
    assert "s3same" not in str(caught.value)
    assert script.asked[0].headers["Authorization"].startswith("Basic ")


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_lead_to_another_path_is_refused(name: str) -> None:
    """An empty name or a dot is no segment of a path."""
    with pytest.raises(BadRequestError, match="must be a name or an id"):
        client(Script(BUSY)).hosts.get(name)


def test_certificates_and_proxies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file of CA certificates replaces the system's, and no proxy is used for loopback."""
    made: list[dict[str, object]] = []
    real = httpx.Client

    def record(**options: object) -> httpx.Client:
        made.append(options)
        return real(**options)  # type: ignore[arg-type]

    monkeypatch.setattr(httpx, "Client", record)
    for url, proxied in (("http://127.0.0.1:1", False), ("http://[::1]:1", False), (URL, True)):
        Client(url).close()
        assert made[-1]["trust_env"] is proxied
    context = ssl.create_default_context()
    Client(URL, tls=context, trust_env=False).close()
    assert (made[-1]["verify"], made[-1]["trust_env"]) == (context, False)
    with pytest.raises(OSError, match=r"."):
        Client(URL, ca_file=tmp_path / "none.pem")


def test_the_library_loads_nothing_of_the_service() -> None:
    """A fresh interpreter has only the client, httpx and msgspec, and no other room of Berth."""
    command = [sys.executable, "-c", _PROGRAM]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert _HEAVY & {name.partition(".")[0] for name in out} == set()
    rooms = {name for name in out if name.startswith("berth.")}
    others = {name for name in rooms if not name.startswith("berth.client")}
    # The package `berth` itself installs the names that plugins of earlier versions import.
    assert others == {"berth.former_names"}
