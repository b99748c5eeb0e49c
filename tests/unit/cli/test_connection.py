"""The connection to the service: credentials, and errors with their exit codes."""

import base64

import httpx
import pytest

from tests.unit.cli.cloud import Cloud
from tests.unit.cli.conftest import Run

SERVERS = ("GET", "/v2.1/servers/detail")


def test_the_compute_api_is_spoken_at_one_version(run: Run, cloud: Cloud) -> None:
    """Each request has microversion 2.96 and goes to the default address."""
    assert run("server", "list").code == 0
    assert cloud.last.headers["OpenStack-API-Version"] == "compute 2.96"
    assert str(cloud.last.url).startswith("http://127.0.0.1:8774/")


def test_url_and_credentials_come_from_options_or_the_environment(
    run: Run, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option overrides the environment variable."""
    monkeypatch.setenv("BERTH_URL", "http://there:1")
    monkeypatch.setenv("BERTH_USER", "ann")
    monkeypatch.setenv("BERTH_PASSWORD", "p")
    monkeypatch.setenv("BERTH_TOKEN", "t")
    run("server", "list")
    assert cloud.last.url.host == "there"
    assert cloud.last.headers["X-Auth-Token"] == "t"
    basic = base64.b64encode(b"ann:p").decode()
    assert cloud.last.headers["Authorization"] == f"Basic {basic}"
    run("server", "list", "--url", "http://here:2", "--user", "bob")
    assert cloud.last.url.host == "here"
    assert base64.b64decode(cloud.last.headers["Authorization"].split()[1]) == b"bob:p"


def test_a_user_without_a_password_is_asked_or_told(run: Run, cloud: Cloud) -> None:
    """Without a terminal, a missing password ends with 2 and names the variable."""
    ended = run("server", "list", "--user", "ann")
    assert ended.code == 2
    assert "BERTH_PASSWORD" in ended.err


@pytest.mark.parametrize("url", ["ftp://x", "x:1", "http://", "http://x:notaport"])
def test_an_url_that_is_none_ends_with_2(run: Run, url: str) -> None:
    """An invalid URL ends with 2, and the error names the option."""
    ended = run("server", "list", "--url", url)
    assert ended.code == 2
    assert "--url" in ended.err


@pytest.mark.parametrize("command", [("server", "list"), ("replay", "--workload", __file__)])
@pytest.mark.parametrize(
    "url", ["http://u:s3same@h:x", "http://u:s3same/x@h", "u:s3same@h", "ftp://u:s3same@h"]
)
def test_an_error_about_a_url_shows_no_password(
    run: Run, command: tuple[str, ...], url: str
) -> None:
    """A malformed URL ends with 2, and the password is not shown, not even as a port."""
    ended = run(*command, "--url", url)
    assert ended.code == 2
    assert "--url" in ended.err
    assert "s3same" not in ended.err


@pytest.mark.parametrize("fault", [httpx.ConnectError("refused"), httpx.ReadTimeout("late")])
def test_an_unreachable_service_is_named_without_the_password(
    run: Run, cloud: Cloud, fault: Exception
) -> None:
    """The errors of a connection name the address without its account."""
    cloud.fails = fault
    ended = run("server", "list", "--url", "http://u:s3same@h:1/x")
    assert ended.code == 5
    assert "http://***@h:1/x" in ended.err
    assert "s3same" not in ended.err


@pytest.mark.parametrize(("host", "proxied"), [("127.0.0.1", False), ("[::1]", False), ("x", True)])
def test_proxies_are_for_other_machines(run: Run, cloud: Cloud, host: str, proxied: bool) -> None:
    """A proxy from the environment is not used for a loopback address."""
    run("server", "list", "--url", f"http://{host}:1")
    assert cloud.options["trust_env"] is proxied


@pytest.mark.parametrize(
    ("status", "document", "code", "said"),
    [
        (400, {"badRequest": {"code": 400, "message": "no such field"}}, 1, "no such field"),
        (401, {"unauthorized": {"message": "who are you"}}, 1, "sign in with --user"),
        (
            403,
            {"forbidden": {"message": "Only administrators may."}},
            1,
            "may; sign in with --user",
        ),
        (403, {"forbidden": {"message": "Quota exceeded"}}, 1, "Quota exceeded (GET"),
        (404, {"itemNotFound": {"message": "gone"}}, 4, "gone"),
        (409, {"conflictingRequest": {"message": "in use"}}, 6, "in use"),
        (500, "it broke", 1, "it broke"),
        (500, "", 1, "Internal Server Error"),
        (503, {"serviceUnavailable": {"message": "later"}}, 5, "later"),
        (200, "<html>", 1, "is not JSON"),
        (200, [], 1, "is not a JSON object"),
        (418, {"odd": 3}, 1, "odd"),
    ],
)
def test_an_error_is_told_with_its_exit_code(
    run: Run, cloud: Cloud, status: int, document: object, code: int, said: str
) -> None:
    """The message is on standard error, and standard output stays empty."""
    cloud.fixed[SERVERS] = (status, document)
    ended = run("server", "list", "--json")
    assert ended.code == code
    assert said in ended.err
    assert ended.out == ""


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), httpx.ReadTimeout("slow")])
def test_a_service_that_cannot_be_reached_ends_with_5(
    run: Run, cloud: Cloud, error: Exception
) -> None:
    """The error names the address."""
    cloud.fails = error
    ended = run("server", "list")
    assert ended.code == 5
    assert "http://127.0.0.1:8774" in ended.err


def test_what_a_server_is_called_cannot_command_the_terminal(run: Run, cloud: Cloud) -> None:
    """Control characters in a name are replaced, and brackets are not taken for markup."""
    cloud.add_server("[bold]a\x1b[2J")
    out = run("server", "list").out
    assert "\x1b" not in out
    assert "[bold]a\ufffd[2J" in out
