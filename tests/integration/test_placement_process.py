"""`berth placement` as a process, on real sockets."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.forks import Fork, forks, run_berth

READY_S = 60.0
TOKEN = {"x-auth-token": "admin"}


@contextmanager
def placement(folder: Path, *words: str) -> Iterator[str]:
    """Run the process until the end of the body, and yield its URL."""
    log = folder / "placement.log"
    log.touch()
    options = ("--listen", "127.0.0.1:0", "--auth", "noauth2", *words)
    process = forks().start(["placement", *options], os.environ, folder, log)
    try:
        yield address(process, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def address(process: Fork, log: Path) -> str:
    """Wait until the log of a process says where it listens, and return its URL."""
    ends_s = time.monotonic() + READY_S
    while not (found := re.search(r"Berth listens on (\S+)\n", log.read_text("utf-8"))):
        assert process.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < ends_s, log.read_text("utf-8")
        time.sleep(0.02)
    return found[1]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of one process for the tests that change no settings."""
    with placement(tmp_path_factory.mktemp("placement"), "--ledger", "memory:") as url:
        yield url


def ask(url: str, method: str, path: str, **more: object) -> httpx.Response:
    """Send a request, as the administrator unless headers are given, and return the answer."""
    kept = {"headers": TOKEN, **more}
    return httpx.request(method, f"{url}{path}", trust_env=False, **kept)  # type: ignore[arg-type]


def raw(url: str, request: bytes) -> tuple[int, dict[str, object]]:
    """Send bytes, and return the status and the JSON that come back."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(request)
        answer = b""
        while not is_whole(answer):
            chunk = connection.recv(65_536)
            assert chunk, answer
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


def is_whole(answer: bytes) -> bool:
    """Tell whether the answer is complete."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return bool(end) and len(body) >= int(length)


def detail(answer: dict[str, object]) -> str:
    """Return the detail of an error."""
    errors = answer["errors"]
    assert isinstance(errors, list)
    return str(errors[0]["detail"])


def test_the_versions_document(url: str) -> None:
    """The versions document is served without a token."""
    answer = httpx.get(f"{url}/", trust_env=False)
    assert answer.status_code == 200
    assert answer.json()["versions"][0]["max_version"] == "1.39"
    assert answer.headers["openstack-api-version"] == "placement 1.0"


def test_what_is_not_there(url: str) -> None:
    """Unknown paths get 404, other methods 405, no token 401 and the wrong role 403."""
    assert ask(url, "GET", "/nowhere").status_code == 404
    assert ask(url, "GET", "/placement").status_code == 404
    answer = ask(url, "DELETE", "/resource_providers")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    assert ask(url, "HEAD", "/resource_providers").content == b""
    assert ask(url, "GET", "/resource_providers", headers={}).status_code == 401
    assert (
        ask(url, "GET", "/resource_providers", headers={"x-auth-token": "user"}).status_code == 403
    )


HEAD = (
    b"POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n"
    b"Content-Type: application/json\r\n"
)


@pytest.mark.parametrize(
    ("request_", "status", "text"),
    [
        (HEAD + b"Content-Length: hi mom\r\n\r\n", 400, "content-length header must be an integer"),
        (HEAD + b"Content-Length: -5\r\n\r\n", 400, "content-length header must be an integer"),
        (b"\x16\x03\x01 no HTTP\r\n\r\n", 400, "Invalid HTTP request received."),
        (
            HEAD + b'Transfer-Encoding: chunked\r\n\r\n6\r\n{"nam"\r\n5\r\n: "x"\r\n0\r\n\r\n',
            400,
            "Malformed JSON",
        ),
        (
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            400,
            "'name' is a required property",
        ),
    ],
)
def test_bodies_as_they_come_over_the_wire(
    url: str, request_: bytes, status: int, text: str
) -> None:
    """Malformed requests and bodies get an error in Placement's form."""
    found, answer = raw(url, request_)
    assert found == status
    assert text in detail(answer)


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [
        (b" " * (1024 * 1024) + b"1", 413, "The body is longer than 1048576 bytes."),
        (b" " * (1024 * 1024 - 2) + b"{}", 400, "'name' is a required property"),
        (b"[" * 100_000, 400, "nested deeper than 32"),
        (b'{"name":' * 40 + b"1" + b"}" * 40, 400, "nested deeper than 32"),
        (b"\xff\xfe", 400, "Malformed JSON"),
        (b'{"name": "\\u0000"}', 400, "U+0000"),
        (b'{"name": "\\ud800"}', 400, "lone surrogate"),
    ],
)
def test_bodies_that_nobody_should_send(url: str, content: bytes, status: int, text: str) -> None:
    """Oversized, deep and malformed bodies are refused, and the process serves on."""
    headers = {**TOKEN, "content-type": "application/json"}
    answer = ask(url, "POST", "/resource_providers", content=content, headers=headers)
    assert (answer.status_code, text in detail(answer.json())) == (status, True), answer.text
    assert ask(url, "GET", "/").status_code == 200


def test_settings_reach_the_process(tmp_path: Path) -> None:
    """Options for the ledger's folder, the policy file and CORS take effect."""
    (tmp_path / "rules").write_text('"placement:resource_providers:list": "role:looker"\n')
    with placement(
        tmp_path,
        *("--data", "ledger", "--policy-file", "rules", "--enforce-new-defaults"),
        *("--cors-origin", "http://a", "--cors-header", "x-a"),
    ) as url:
        assert ask(url, "GET", "/resource_providers").status_code == 403
        looker = {**TOKEN, "x-roles": "looker"}
        assert ask(url, "GET", "/resource_providers", headers=looker).status_code != 403
        json_type = {
            **TOKEN,
            "content-type": "application/json",
            "openstack-api-version": "placement 1.30",
        }
        answer = ask(url, "POST", "/reshaper", content=b"{}", headers=json_type)
        assert answer.status_code == 403
        origin = {"origin": "http://a", "access-control-request-method": "GET"}
        answer = ask(url, "OPTIONS", "/", headers=origin)
        assert answer.headers["access-control-allow-origin"] == "http://a"
    assert (tmp_path / "ledger" / "berth.sqlite").exists()


def test_a_wrong_policy_starts_nothing(tmp_path: Path) -> None:
    """A policy file with an unknown rule ends the process with 2 and names the rule."""
    (tmp_path / "rules").write_text('"placement:traits:list": "rule:nowhere"\n')
    words = ("placement", "--ledger", "memory:", "--listen", "127.0.0.1:0", "--policy-file")
    ended = run_berth(*words, "rules", folder=tmp_path)
    assert ended.returncode == 2
    assert "there is no rule 'nowhere'" in ended.stderr


def test_what_it_does_not_need_is_not_loaded() -> None:
    """The process loads neither the scheduling code nor drivers that it does not need."""
    code = "import sys, berth.cli.commands.serving, berth.app.placement; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(ended.stdout.split())
    rooms = ("filters", "weighers", "engine", "evaluation", "plan", "rules")
    left_out = {f"berth.scheduling.{name}" for name in rooms}
    left_out |= {
        "jsonschema",
        "asyncpg",
        "sqlalchemy.orm",
        "berth.adapters.ledger.postgres.postgres_ledger",
    }
    assert not found & left_out
