"""The Accept header."""

import pytest

from berth.api.placement.answers import liking

JSON = "application/json"


@pytest.mark.parametrize(
    ("accept", "liked"),
    [
        (None, 1.0),
        ("", 1.0),
        ("*/*", 1.0),
        ("application/*", 1.0),
        ("application/json", 1.0),
        ("Application/JSON; charset=utf-8", 1.0),
        ("application/json;q=0.3", 0.3),
        ("text/html, */*;q=0.8", 0.8),
        ("*/*, application/json;q=0", 0.0),
        ("*/*;q=0.1, application/*;q=0.2", 0.2),
        ("application/json;q=rather", 1.0),
        ("application/json;q=7", 1.0),
        ("application/json;v=1;q=0.5", 0.5),
        ("text/html", 0.0),
        ("text/html,application/xml;q=0.9", 0.0),
        ("nonsense", 1.0),
        (",;,", 1.0),
    ],
)
def test_how_well_json_is_liked(accept: str | None, liked: float) -> None:
    """The most specific range of the header determines the quality of JSON."""
    assert liking(accept, JSON) == liked
