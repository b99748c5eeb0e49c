"""The peer that is the real Placement."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from tests.differential.peer import ROOT, Peer

PYTHON = ROOT / ".venv-placement" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "placement_peer.py"
MISSING = "There is no .venv-placement with the real Placement; `make placement-peer` makes it."


class Said(NamedTuple):
    """What an API answers: the status, the JSON of the body, and headers by names in lower case.

    A body that is no JSON is there as its text, and none as None.
    """

    status: int
    json: object
    headers: Mapping[str, str] = {}


def said_of(status: int, text: str, headers: Mapping[str, str]) -> Said:
    """Read an answer."""
    try:
        return Said(status, json.loads(text) if text else None, headers)
    except ValueError:
        return Said(status, text, headers)


def headers_of(version: str | None, *, has_body: bool) -> dict[str, str]:
    """Return the headers of an administrator's request; without a version it is the oldest."""
    told = {"x-auth-token": "admin", "accept": "application/json"}
    if version is not None:
        told["openstack-api-version"] = f"placement {version}"
    if has_body:
        told["content-type"] = "application/json"
    return told


class Real(Peer):
    """One running peer; use it as a context."""

    def __init__(self) -> None:
        super().__init__(PYTHON, SCRIPT)

    def empty(self) -> None:
        """Have it forget all that was made."""
        self.tell({"do": "empty"})

    def sweep(self) -> None:
        """Have it forget consumers that hold nothing, which refused requests leave behind."""
        self.tell({"do": "sweep"})

    def ask(self, method: str, path: str, body: object = None, *, version: str = "1.39") -> Said:
        """Return its answer to a request of an administrator.

        Raises:
            RuntimeError: the peer has ended; what it said is on standard error.
        """
        content = None if body is None else json.dumps(body)
        return self.send(method, path, headers_of(version, has_body=content is not None), content)

    def send(self, method: str, path: str, headers: Mapping[str, str], content: str | None) -> Said:
        """Return its answer to any request.

        Args:
            method: of HTTP.
            path: quoted, with the query.
            headers: all of them.
            content: the body.

        Raises:
            RuntimeError: the peer has ended; what it said is on standard error.
        """
        asked = {"method": method, "path": path, "headers": headers, "content": content}
        said = json.loads(self.tell(asked))
        return said_of(said["status"], said["text"], said["headers"])
