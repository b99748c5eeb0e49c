"""Errors as clients see them."""

import pytest

from berth.api.errors import HttpError, translate
from berth.domain.compute.decision import NoValidHostError, Refusal, RefusalCode
from berth.domain.errors import (
    BerthError,
    ConflictError,
    InvalidInputError,
    LedgerError,
    NotFoundError,
    PolicyError,
    UnavailableError,
)

REFUSAL = Refusal(RefusalCode.NO_HOSTS, "no", placed=0, asked=1, hosts_total=0)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidInputError("server.name", "too long"), 400),
        (PolicyError("filters", "none"), 400),
        (NotFoundError("flavor", "x"), 404),
        (ConflictError("changed"), 409),
        (NoValidHostError("req-1", REFUSAL), 409),
        (UnavailableError("away"), 503),
        (HttpError(418, "tea"), 418),
    ],
)
def test_every_error_has_a_status(error: BerthError, status: int) -> None:
    """An error that the caller may see has a status and a message."""
    translated = translate(error)
    assert translated is not None
    assert translated.status == status
    assert translated.message


def test_not_found_is_said_as_nova_says_it() -> None:
    """The message is Nova's, since clients show it."""
    translated = translate(NotFoundError("flavor", "m1.tiny"))
    assert translated is not None
    assert translated.message == "Flavor m1.tiny could not be found."


def test_what_is_away_comes_back() -> None:
    """An UnavailableError has a Retry-After header."""
    translated = translate(UnavailableError("away"))
    assert translated is not None
    assert "Retry-After" in translated.headers


def test_internal_errors_are_not_shown() -> None:
    """An internal error is not translated."""
    assert translate(LedgerError("/secret/path is damaged")) is None
