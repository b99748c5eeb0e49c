"""The text of log lines, which no value can break."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.config.log_lines import console_line, json_line

LINE = {"timestamp": "2026-01-01T00:00:00Z", "level": "info", "event": "http_request"}


@given(st.text(), st.text())
def test_no_value_breaks_a_line(event: str, value: str) -> None:
    """Whatever a value is, the line is one line of printable characters, in both forms."""
    line = {**LINE, "event": event, "path": value, "more": [value], "map": {"key": value}}
    for text in (json_line(line), console_line(line)):
        assert text.isprintable()
        assert len(text.splitlines()) == 1
    assert json_line(line).isascii()


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_keeps_every_value(value: str) -> None:
    """JSON lines give back the value that was logged."""
    assert json.loads(json_line({**LINE, "path": value}))["path"] == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("/v2.1/servers", "/v2.1/servers"),
        ("two words", '"two words"'),
        ('a"b', '"a\\"b"'),
        ("größer", '"größer"'),
        ("a\nlevel=error", '"a\\nlevel=error"'),
        ("a\33[31m", '"a\\u001b[31m"'),
        ("", '""'),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        (["a", "b"], '"[\\"a\\",\\"b\\"]"'),
    ],
)
def test_values_are_quoted_when_needed(value: object, shown: str) -> None:
    """Values with spaces, quotation marks or control characters are quoted."""
    text = console_line({**LINE, "value": value})
    assert text == f"2026-01-01T00:00:00Z [info   ] http_request             value={shown}"


def test_a_traceback_cannot_pass_for_lines() -> None:
    """Each line of a traceback is indented, and its control characters are escaped."""
    text = console_line({**LINE, "exception": "Error: a\n2026 [info] fake\33[2J"})
    assert text.splitlines()[1:] == ["    Error: a", "    2026 [info] fake\\u001b[2J"]


def test_values_without_a_json_form_are_shown() -> None:
    """A value that JSON does not have appears as Python shows it."""
    assert json.loads(json_line({**LINE, "value": 1j}))["value"] == "1j"
    assert json.loads(json_line({**LINE, "value": {1, 2}}))["value"] == [1, 2]
    assert json.loads(json_line({**LINE, "value": "\udc80"}))["value"] == "\udc80"
