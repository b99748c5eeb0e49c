"""A false zone, which offers capacity that it does not have and answers as a test tells it."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from berth.services.crypto.base64url import url_text_of

Json = dict[str, Any]
Says = Callable[[Json], Json | bytes]
"""Returns the answer to a request body; bytes are sent unchanged."""

NAME = "liar"
WEIGHT = 1e6


class Liar:
    """The answers of the false zone to selects, builds and releases.

    By default it makes excellent offers and refuses to build on them.

    Attributes:
        url: URL of the zone.
        asked: verbs of the requests so far, in order.
        says: functions that return its answers, by verb.
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
        """Record a request and return the body of its answer."""
        self.asked.append(verb)
        said = self.says[verb](body)
        return said if isinstance(said, bytes) else json.dumps(said).encode()


def offers(
    asked: Json, *, weight: object = WEIGHT, blob_bytes: int | None = None, times: int = 1
) -> Json:
    """Return `times` offers for each instance, with blobs that no key opens."""
    blob = url_text_of(b"x" * (asked["blob_bytes"] if blob_bytes is None else blob_bytes))
    weights = [{"weight": weight, "blob": blob}] * (asked["num_instances"] * times)
    return {"select_id": url_text_of(b"0123456789abcdef"), "weights": weights}


def refusals(asked: Json, flaw: str | None = "gone") -> Json:
    """Return a refusal of all instances; with the flaw None, say that they are being built."""
    told = [{"uuid": one["uuid"], "flaw": flaw} for one in asked["instances"]]
    return {"reservation_id": asked["reservation_id"], "instances": told}


def nonsense(_: Json) -> bytes:
    """Return bytes that are not JSON."""
    return b'{"what":[[['


def hugeness(_: Json) -> bytes:
    """Return 50 MB of JSON."""
    return b'{"select_id":"' + b"x" * 50_000_000 + b'"}'


@contextmanager
def lying() -> Generator[Liar]:
    """Run a false zone and yield it."""

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
                self.close_connection = True  # the client does not read the whole answer

        def log_message(self, *_: object) -> None:
            """Log nothing."""

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
