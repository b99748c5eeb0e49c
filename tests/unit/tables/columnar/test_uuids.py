"""Tests for the uuids of rows, which are stored in sixteen bytes each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.tables.columnar.uuids import HostUuids, Uuids

PLAIN = "0123abcd-89ab-4cde-8f01-23456789abcd"
ODD = [
    "",
    "a/a",
    PLAIN.upper(),
    PLAIN.replace("-", ""),
    f" {PLAIN[1:]}",
    PLAIN.replace("-", " "),
    "0123abcd-89ab-4cde-8f0-123456789abcd",
    "-" * 36,
    "é" * 36,
]


@pytest.mark.parametrize("text", [PLAIN, "00000000-0000-0000-0000-000000000000", *ODD])
def test_a_text_comes_back_as_it_was_put(text: str) -> None:
    """Any text is preserved and distinguished from every other spelling."""
    uuids = Uuids(2)
    for first in (PLAIN, "x", text):
        uuids.put(1, first)
    assert uuids.get(1) == text
    assert [one for one in (PLAIN, *ODD) if uuids.has(1, one)] == [
        one for one in (PLAIN, *ODD) if one == text
    ]
    uuids.clear(1)
    assert not uuids.has(1, PLAIN)


@given(st.lists(st.uuids().map(str) | st.text(max_size=36), min_size=1, unique=True))
def test_rows_are_found_by_their_uuids(texts: list[str]) -> None:
    """Rows are found by their uuids, also after other uuids were cleared."""
    uuids = HostUuids(1)
    uuids.resize(len(texts))
    for row, text in enumerate(texts):
        uuids.put(row, text)
    assert [uuids.row_of(text) for text in texts] == list(range(len(texts)))
    assert [uuids.get(row) for row in range(len(texts))] == texts
    for row in range(0, len(texts), 2):
        uuids.clear(row)
    found = [uuids.row_of(text) for text in texts]
    assert found == [row if row % 2 else None for row in range(len(texts))]
