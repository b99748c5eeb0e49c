"""The peer that is the real Placement."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from tests.differential.peer import ROOT, Peer

PYTHON = ROOT / ".venv-placement" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "placement_peer.py"
MISSING = "There is no .venv-placement with the real Placement; `make placement-peer` makes it."


class Said(NamedTuple):
    """An answer of the API: the status, the JSON of the body, and headers by lower-case names.

    A body that is not JSON is kept as text, and an empty one as None.
    """

    status: int
    json: object
    headers: Mapping[str, str] = {}


def said_of(status: int, text: str, headers: Mapping[str, str]) -> Said:
    """Return an answer with its body decoded."""
    try:
        return Said(status, json.loads(text) if text else None, headers)
    except ValueError:
        return Said(status, text, headers)


def headers_of(version: str | None, *, has_body: bool) -> dict[str, str]:
    """Return the headers of an administrator's request, without a version for the oldest."""
    told = {"x-auth-token": "admin", "accept": "application/json"}
    if version is not None:
        told["openstack-api-version"] = f"placement {version}"
    if has_body:
        told["content-type"] = "application/json"
    return told


class Real(Peer):
    """A running peer; use it as a context."""

    def __init__(self) -> None:
        super().__init__(PYTHON, SCRIPT)

    def empty(self) -> None:
        """Delete all records of the peer."""
        self.tell({"do": "empty"})

    def sweep(self) -> None:
        """Delete consumers without allocations, which refused requests leave in the peer."""
        self.tell({"do": "sweep"})

    def ask(self, method: str, path: str, body: object = None, *, version: str = "1.39") -> Said:
        """Return the peer's answer to a request of an administrator.

        Raises:
            RuntimeError: the peer has ended; what it said is on standard error.
        """
        content = None if body is None else json.dumps(body)
        return self.send(method, path, headers_of(version, has_body=content is not None), content)

    def send(self, method: str, path: str, headers: Mapping[str, str], content: str | None) -> Said:
        """Return the peer's answer to any request.

        Args:
            method: the HTTP method.
            path: the quoted path with the query.
            headers: all headers.
            content: the body.

        Raises:
            RuntimeError: the peer has ended; what it said is on standard error.
        """
        asked = {"method": method, "path": path, "headers": headers, "content": content}
        said = json.loads(self.tell(asked))
        return said_of(said["status"], said["text"], said["headers"])
