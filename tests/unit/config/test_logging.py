"""The fields that are added to log lines, and the secrets that are removed."""

import pytest

from berth.config.logging import add_request_id, hide_secrets
from berth.ports.bus import CONTEXT, Context

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_a_line_names_its_request() -> None:
    """The context adds the request and trace ids; a request id of the caller is kept."""
    CONTEXT.set(Context("req-1", None, f"00-{TRACE}-{'b' * 16}-01"))
    line = add_request_id(None, "", {"event": "e"})
    assert line == {"event": "e", "request_id": "req-1", "trace_id": TRACE}
    assert add_request_id(None, "", {"request_id": "req-2"})["request_id"] == "req-2"
    CONTEXT.set(Context())
    assert add_request_id(None, "", {"event": "e"}) == {"event": "e"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", "hunter2"),
        ("X-Auth-Token", "hunter2"),
        ("auth_blob", b"hunter2"),
        ("client_secret", ["hunter2"]),
        ("error", "cannot reach postgresql://berth:hunter2@db/berth"),
        ("error", "amqps://berth:hunter2@[::1]:5671/ is away"),
        ("headers", {"Authorization": "hunter2", "url": "http://a:hunter2@b"}),
        ("exception", "Traceback ...\nValueError: Basic YWRtaW46aHVudGVyMg=="),
        ("event", "got Bearer hunter2hunter2"),
    ],
)
def test_secrets_are_hidden(key: str, value: object) -> None:
    """Secrets are hidden in values, texts and nested fields."""
    line = str(hide_secrets(None, "", {key: value}))
    assert "hunter2" not in line
    assert "YWRt" not in line
    assert "***" in line


def test_other_values_stay_as_they_are() -> None:
    """URLs without passwords, numbers and None are unchanged."""
    line = {"event": "x", "url": "http://db:5432/a@b", "hosts": 3, "password": None}
    assert hide_secrets(None, "", dict(line)) == line
