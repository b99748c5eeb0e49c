"""A server that answers every request with 404, which the suite must not pass."""

import sys
from collections.abc import Callable
from typing import Any
from wsgiref.simple_server import make_server


def nothing(environ: dict[str, Any], start_response: Callable[..., object]) -> list[bytes]:
    """Answer every request with 404."""
    length = environ.get("CONTENT_LENGTH") or "0"
    # An unread body would break the connection before the answer arrives.
    environ["wsgi.input"].read(int(length) if length.isdigit() else 0)
    start_response("404 Not Found", [("Content-Length", "0")])
    return []


if __name__ == "__main__":
    make_server("127.0.0.1", int(sys.argv[1]), nothing).serve_forever()
