"""The load of server creations over HTTP."""

import json

from bench.load import Load, LoadPlan, create_requests

PLAN = LoadPlan("127.0.0.1", 8774, "small", "load", clients=2, seconds=1.0)


def test_requests_are_complete_and_differ() -> None:
    """Each request has the length of its body and the name of another server."""
    requests = create_requests(PLAN)
    names = set()
    for _ in range(3):
        head, _, body = next(requests).partition(b"\r\n\r\n")
        assert head.startswith(b"POST /v2.1/servers HTTP/1.1\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        server = json.loads(body)["server"]
        assert server["flavorRef"] == "small"
        names.add(server["name"])
    assert len(names) == 3


def test_a_load_knows_its_rate() -> None:
    """The rate of a load is its creations per second of wall time."""
    load = Load(creates=100, errors=0, seconds=4.0, p50_ms=1.0, p99_ms=2.0, cpu_us=10.0)
    assert load.per_s == 25.0
