"""A zone that is none: it offers what it does not have, and says what a test tells it to say."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from berth.services.crypto.base64url import url_text_of

Json = dict[str, Any]
Says = Callable[[Json], Json | bytes]
"""Makes an answer of what was asked; bytes go out as they are."""

NAME = "liar"
WEIGHT = 1e6


class Liar:
    """What it says to selects, builds and releases; it knows no better than to be very good.

    Attributes:
        url: where it is asked.
        asked: the verbs, in order.
        says: its answers, by verb.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []
        self.says: dict[str, Says] = {
            "info": lambda _: {"zone": {"name": NAME, "capabilities": {}, "ranges": {}}},
            "select": offers,
            "build": refusals,
            "release": lambda _: {"kept": []},
        }

    def answer(self, verb: str, body: Json) -> bytes:
        """Return the body of an answer."""
        self.asked.append(verb)
        said = self.says[verb](body)
        return said if isinstance(said, bytes) else json.dumps(said).encode()


def offers(
    asked: Json, *, weight: object = WEIGHT, blob_bytes: int | None = None, times: int = 1
) -> Json:
    """Offer a place for each instance, in blobs that nobody could open."""
    blob = url_text_of(b"x" * (asked["blob_bytes"] if blob_bytes is None else blob_bytes))
    weights = [{"weight": weight, "blob": blob}] * (asked["num_instances"] * times)
    return {"select_id": url_text_of(b"0123456789abcdef"), "weights": weights}


def refusals(asked: Json, flaw: str | None = "gone") -> Json:
    """Refuse all that is to be built, or say that it is being built."""
    told = [{"uuid": one["uuid"], "flaw": flaw} for one in asked["instances"]]
    return {"reservation_id": asked["reservation_id"], "instances": told}


def nonsense(_: Json) -> bytes:
    """Say nothing that could be read."""
    return b'{"what":[[['


def hugeness(_: Json) -> bytes:
    """Say far too much."""
    return b'{"select_id":"' + b"x" * 50_000_000 + b'"}'


@contextmanager
def lying() -> Generator[Liar]:
    """Run a liar."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer("info")

        def do_POST(self) -> None:
            verb = self.path.rpartition("/")[2]
            self._answer("build" if verb == "servers" else verb)

        def _answer(self, verb: str) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body: Json = json.loads(self.rfile.read(length) or b"{}")
            answer = liar.answer(verb, body)
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            except OSError:
                self.close_connection = True  # nobody wants to hear all of that

        def log_message(self, *_: object) -> None:
            """Say nothing of it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    liar = Liar(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, name="liar")
    thread.start()
    try:
        yield liar
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
