"""Responses of the Placement API: headers, and the forms of errors."""

import httpx
import pytest

from berth.api.codec import encode
from berth.api.limits import RequestLimits
from berth.api.placement.actions import (
    PUBLIC,
    PlacementCall,
    PlacementReply,
    PlacementRoute,
    json_reply,
)
from berth.api.placement.errors import Code, PlacementError, refusal_of
from berth.domain.errors import (
    BerthError,
    ConflictError,
    NotFoundError,
    UnavailableError,
)
from tests.unit.api.cloud import NOW_S, Told
from tests.unit.api.placement.service import Service, service_of

ID = "req-00000000-0000-4000-8000-000000000001"
MALFORMED = (
    "The server could not comply with the request since it is either malformed or otherwise "
    "incorrect."
)


@pytest.fixture
def service() -> Service:
    """Return a service with the real routes."""
    return service_of()


async def test_the_versions_document_needs_no_token(service: Service) -> None:
    """The document is at both paths and has the version headers."""
    for path in ("/", ""):
        answer = await service.ask("GET", path, version=None, headers={"x-auth-token": None})
        assert answer.status_code == 200
        assert answer.json() == {
            "versions": [
                {
                    "id": "v1.0",
                    "max_version": "1.39",
                    "min_version": "1.0",
                    "status": "CURRENT",
                    "links": [{"rel": "self", "href": ""}],
                }
            ]
        }
        assert answer.headers["openstack-api-version"] == "placement 1.0"
        assert answer.headers["vary"] == "openstack-api-version"
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-openstack-request-id"].startswith("req-")


@pytest.mark.parametrize(("version", "is_told"), [("1.14", False), ("1.15", True)])
async def test_times_are_told_from_1_15(service: Service, version: str, is_told: bool) -> None:
    """From 1.15 on, responses have Last-Modified and Cache-Control."""
    answer = await service.ask("GET", "/", version=version)
    assert ("last-modified" in answer.headers) is is_told
    assert answer.headers.get("cache-control") == ("no-cache" if is_told else None)
    if is_told:
        assert answer.headers["last-modified"] == "Fri, 15 Jan 2027 08:00:00 GMT"


async def test_a_reply_tells_its_own_time_and_some_without_a_body() -> None:
    """A response with a body has a time; one without has it if the route is timed."""

    async def shown(ask: PlacementCall) -> PlacementReply:
        return json_reply({}, modified_s=NOW_S - 3600)

    async def done(ask: PlacementCall) -> PlacementReply:
        return PlacementReply(204, headers=(ask.location("/traits/A"),), modified_s=NOW_S - 3600)

    service = service_of(
        [
            PlacementRoute("GET", "/traits", shown, PUBLIC),
            PlacementRoute("PUT", "/traits", done, PUBLIC, is_timed=True),
            PlacementRoute("DELETE", "/traits", done, PUBLIC),
        ]
    )
    for method in ("GET", "PUT"):
        answer = await service.ask(method, "/traits")
        assert answer.headers["last-modified"] == "Fri, 15 Jan 2027 07:00:00 GMT"
    answer = await service.ask("DELETE", "/traits")
    assert answer.status_code == 204
    assert "last-modified" not in answer.headers
    assert "content-length" not in answer.headers
    assert "content-type" not in answer.headers
    assert answer.headers["location"] == "http://placement/traits/A"


async def test_links_have_the_prefix(service: Service) -> None:
    """Headers have absolute URLs, and bodies have paths, both with the prefix."""

    async def show(ask: PlacementCall) -> PlacementReply:
        return json_reply({"href": ask.link("/traits/A")}, headers=(ask.location("/traits/A"),))

    service = service_of([PlacementRoute("GET", "/traits", show, PUBLIC)], prefix="/placement")
    answer = await service.ask(
        "GET", "/placement/traits", headers={"host": "cloud:1", "x-forwarded-proto": "https"}
    )
    assert answer.json() == {"href": "/placement/traits/A"}
    assert answer.headers["location"] == "https://cloud:1/placement/traits/A"


def error(answer: httpx.Response) -> dict[str, object]:
    """Return the single error of a response."""
    (told,) = answer.json()["errors"]
    return dict(told)


async def test_an_unknown_path(service: Service) -> None:
    """An unknown path gets 404 with title, detail, code and request id."""
    answer = await service.ask("GET", "/nowhere", version="1.23")
    assert error(answer) == {
        "status": 404,
        "title": "Not Found",
        "detail": "The resource could not be found.\n\n   ",
        "code": "placement.undefined_code",
        "request_id": ID,
    }
    assert answer.headers["openstack-api-version"] == "placement 1.23"


async def test_codes_are_told_from_1_23(service: Service) -> None:
    """Errors before 1.23 have no code."""
    assert "code" not in error(await service.ask("GET", "/nowhere", version="1.22"))


async def test_a_wrong_method_tells_the_right_ones(service: Service) -> None:
    """A wrong method, including HEAD and OPTIONS, gets 405 with the allowed ones."""
    answer = await service.ask("DELETE", "/resource_providers")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, POST"
    assert error(answer)["detail"] == (
        "The method DELETE is not allowed for this resource. \n\n "
        "The method specified is not allowed for this resource."
    )
    for method in ("HEAD", "OPTIONS", "PATCH"):
        assert (await service.ask(method, "/resource_providers")).status_code == 405
    assert (await service.ask("DELETE", "/")).headers["allow"] == "GET"


async def test_delete_of_all_inventories_was_405_before_it_came(service: Service) -> None:
    """Before its version, this action gets 405, and others get 404."""
    path = "/resource_providers/u/inventories"
    assert (await service.ask("DELETE", path, version="1.4")).status_code == 405
    assert (await service.ask("DELETE", path, version="1.5")).status_code != 405
    assert (await service.ask("GET", "/traits", version="1.5")).status_code == 404


async def test_a_wrong_content_type(service: Service) -> None:
    """Another media type gets 415; parameters of the type are ignored."""
    answer = await service.ask(
        "POST", "/resource_providers", content="x", headers={"content-type": "text/plain"}
    )
    assert error(answer)["detail"] == (
        "The request media type text/plain is not supported by this server. \n\n "
        "The media type text/plain is not supported, use application/json"
    )
    answer = await service.ask("PUT", "/resource_providers/u")
    assert answer.status_code == 415
    assert "The media type None is not supported, use application/json" in answer.text
    answer = await service.ask(
        "POST",
        "/resource_providers",
        content="{}",
        headers={"content-type": "Application/JSON; charset=utf-8"},
    )
    assert answer.status_code == 400


async def test_a_version_out_of_range_tells_the_range(service: Service) -> None:
    """An unsupported version gets 406 with the range, and no version headers."""
    answer = await service.ask("GET", "/resource_providers", version="1.99")
    assert error(answer) == {
        "status": 406,
        "title": "Not Acceptable",
        "detail": "The resource could not be generated that was acceptable to your browser "
        "(content of type application/json. \n\n "
        "Invalid microversion: Unacceptable version header: 1.99",
        "request_id": ID,
        "max_version": "1.39",
        "min_version": "1.0",
    }
    assert "openstack-api-version" not in answer.headers
    assert "vary" not in answer.headers


async def test_a_malformed_version(service: Service) -> None:
    """A malformed version gets 400 with Placement's message."""
    answer = await service.ask("GET", "/", version="pony.horse")
    assert error(answer)["detail"] == (
        f"{MALFORMED}\n\n Invalid microversion: invalid version string: pony.horse; invalid "
        "literal for int() with base 10: 'pony'  "
    )


async def test_whoever_is_not_known(service: Service) -> None:
    """A request without a token gets 401 in its own form."""
    answer = await service.ask("GET", "/resource_providers", headers={"x-auth-token": None})
    assert answer.status_code == 401
    assert answer.json()["code"] == "401 Unauthorized"
    assert answer.json()["title"] == "Unauthorized"
    assert answer.json()["message"].startswith("This server could not verify that you are")
    assert "openstack-api-version" not in answer.headers


async def test_whoever_may_not(service: Service) -> None:
    """A request without the required role gets 403 with the name of the rule."""
    answer = await service.ask("GET", "/resource_providers", headers={"x-auth-token": "user"})
    assert error(answer)["detail"] == (
        "Access was denied to this resource.\n\n "
        "Policy does not allow placement:resource_providers:list to be performed.  "
    )


async def test_what_a_server_cannot_do() -> None:
    """An error with status 501 has its own title and detail."""

    async def refuse(ask: PlacementCall) -> PlacementReply:
        raise PlacementError(501, "Not here.")

    service = service_of([PlacementRoute("GET", "/resource_providers", refuse, PUBLIC)])
    answer = await service.ask("GET", "/resource_providers")
    assert answer.status_code == 501
    assert error(answer)["title"] == "Not Implemented"
    assert error(answer)["detail"] == (
        "The request method GET is not implemented for this server. \n\n Not here."
    )


async def test_an_error_for_a_browser(service: Service) -> None:
    """A client that prefers HTML gets escaped HTML."""
    answer = await service.ask(
        "GET",
        "/",
        version="0.5",
        headers={"accept": "text/html"},
    )
    assert answer.status_code == 406
    assert answer.headers["content-type"] == "text/html; charset=UTF-8"
    assert "Unacceptable version header: 0.5" in answer.text
    answer = await service.ask("GET", "/", version="<b>", headers={"accept": "text/html"})
    assert "&lt;b&gt;" in answer.text
    answer = await service.ask(
        "GET", "/", version="0.5", headers={"accept": "text/html,application/json"}
    )
    assert answer.headers["content-type"] == "application/json"


async def test_a_browser_may_read_what_it_likes_a_little(service: Service) -> None:
    """A client that does not accept JSON at all gets 406, except at the root."""
    likes = "text/html,application/xhtml+xml,application/xml;q=0.9"
    answer = await service.ask(
        "GET", "/resource_providers", headers={"accept": f"{likes},*/*;q=0.8"}
    )
    assert answer.status_code != 406
    answer = await service.ask("GET", "/resource_providers", headers={"accept": likes})
    assert answer.status_code == 406
    assert "Only application/json is provided" in answer.text
    answer = await service.ask("GET", "/", headers={"accept": "text/plain"})
    assert answer.status_code == 200


def test_a_message_has_one_line() -> None:
    """The default code of an error is `undefined`."""
    refusal = PlacementError(409, "one\r\ntwo")
    assert refusal.code is Code.UNDEFINED


async def test_lines_of_a_message_are_joined() -> None:
    """The lines of a message are joined, and its code is kept."""

    async def refuse(ask: PlacementCall) -> PlacementReply:
        raise PlacementError(409, "one\r\n\ntwo", Code.CONCURRENT_UPDATE)

    service = service_of([PlacementRoute("GET", "/traits", refuse, PUBLIC)])
    told = error(await service.ask("GET", "/traits"))
    assert told["detail"] == (
        "There was a conflict when trying to complete your request.\n\n one  two  "
    )
    assert told["code"] == "placement.concurrent_update"


class FaultError(BerthError):
    """An unexpected error inside the service."""


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (NotFoundError("provider", "u"), 404, Code.UNDEFINED),
        (ConflictError("taken"), 409, Code.UNDEFINED),
        (UnavailableError("away"), 503, Code.UNDEFINED),
    ],
)
def test_errors_of_services_have_a_status(failure: BerthError, status: int, code: Code) -> None:
    """Each error of the services has its status and code; unknown errors have none."""
    refusal = refusal_of(failure)
    assert refusal is not None
    assert (refusal.status, refusal.code) == (status, code)
    assert refusal_of(FaultError("secret")) is None


@pytest.mark.parametrize("failure", [FaultError("secret"), RuntimeError("secret")])
async def test_what_nobody_foresaw_is_500_and_told(failure: Exception) -> None:
    """An unexpected error gets 500 without its text, and is reported."""

    async def fail(ask: PlacementCall) -> PlacementReply:
        raise failure

    told = Told()
    service = service_of([PlacementRoute("GET", "/traits", fail, PUBLIC)], telemetry=told)
    answer = await service.ask("GET", "/traits")
    assert answer.status_code == 500
    assert error(answer)["title"] == "Internal Server Error"
    assert "secret" not in answer.text
    assert answer.headers["openstack-api-version"] == "placement 1.39"
    assert [name for name, _, _ in told.failures] == ["http_request_failed"]


async def test_limits_are_told_in_this_form() -> None:
    """Exceeded limits on the query, the headers and the body are errors in this form."""
    service = service_of(limits=RequestLimits(body_bytes_max=1000, query_bytes_max=100))
    json = {"content-type": "application/json"}
    answer = await service.ask("GET", f"/?{'x' * 101}")
    assert (answer.status_code, error(answer)["title"]) == (414, "Request-URI Too Long")
    answer = await service.ask("GET", "/", headers={f"x-{n}": "y" for n in range(101)})
    assert answer.status_code == 431
    assert "The request has more than 100 header fields." in str(error(answer)["detail"])
    answer = await service.ask("POST", "/resource_providers", content="x" * 1001, headers=json)
    assert answer.status_code == 413
    assert "longer than 1000 bytes" in str(error(answer)["detail"])
    deep = encode({"name": "x"})[:-1] + b',"a":' + b"[" * 40 + b"]" * 40 + b"}"
    answer = await service.ask("POST", "/resource_providers", content=deep, headers=json)
    assert answer.status_code == 400
    assert "nested deeper than 32" in str(error(answer)["detail"])


@pytest.mark.parametrize(
    ("length", "status", "text"),
    [
        ("hi mom", 400, "content-length header must be an integer"),
        ("-1", 400, "content-length header must be an integer"),
        ("+1", 400, "content-length header must be an integer"),
        ("5", 400, "content-type header required when content-length > 0"),
        ("0", 415, "use application/json"),
        ("", 415, "use application/json"),
    ],
)
async def test_the_length_of_a_body(service: Service, length: str, status: int, text: str) -> None:
    """An invalid Content-Length or a missing Content-Type is refused."""
    answer = await service.ask("POST", "/resource_providers", headers={"content-length": length})
    assert (answer.status_code, text in answer.text) == (status, True), answer.text
