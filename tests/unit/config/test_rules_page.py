"""The page of rules matches the code: what each rule reads, when it runs, and its options."""

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

import pytest

from berth.config.plugins import COSTS, DRIVERS, FILTERS, WEIGHERS, options_of, plugin_names
from berth.scheduling.rules.rule import Filter, Weigher
from berth.tables.columnar.journal import GROUPS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rules.md"
HEADINGS: Mapping[str, str] = {
    FILTERS: "filter",
    WEIGHERS: "weigher",
    DRIVERS: "driver",
    COSTS: "cost",
}
OURS = "berth.scheduling."


def cells(line: str) -> list[str]:
    """Return the cells of a table row."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows_of(group: str) -> dict[str, dict[str, str]]:
    """Return the table rows of a group by name, each as a mapping by column."""
    lines = PAGE.read_text("utf-8").splitlines()
    (start,) = (n for n, line in enumerate(lines) if line.startswith(f"| {HEADINGS[group]} |"))
    columns = cells(lines[start])
    found: dict[str, dict[str, str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        row = dict(zip(columns, cells(line), strict=True))
        name = row.pop(columns[0]).strip("`")
        assert name not in found, f"{name} is there twice"
        found[name] = row
    return found


def code(words: Sequence[str]) -> str:
    """Return words as inline code, or `-` for none."""
    return ", ".join(f"`{word}`" for word in words) or "-"


def written(value: object) -> str:
    """Return a default as a policy file would have it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case None | Mapping():
            return "{}"
        case tuple():
            return f"[{', '.join(map(written, cast('tuple[object, ...]', value)))}]"
        case _:
            return str(value)


def expected(group: str) -> dict[str, dict[str, str]]:
    """Return the cells that the page should have for Berth's own rules, by name and column."""
    found: dict[str, dict[str, str]] = {}
    for entry in entry_points(group=group):
        if not entry.value.startswith(OURS):
            continue
        build = entry.load()
        known = options_of(build, entry.name, entry.name).values()
        row = {"options": code([f"{one.name} = {written(one.default)}" for one in known])}
        built: object = build()
        if isinstance(built, Filter | Weigher):
            row["reads of a request"] = code(built.reads.request)
            row["of hosts"] = code(sorted(built.reads.columns, key=GROUPS.index))
        if isinstance(built, Filter):
            row["asked"] = asked(built)
        found[entry.name] = row
    return found


def asked(rule: Filter) -> str:
    """Return the text that says when a filter runs."""
    words = ["once a request" if rule.once_per_request else "for each instance"]
    words += ["of forced hosts"] if rule.on_forced else []
    words += ["for rebuilds"] if rule.run_on_rebuild else []
    return ", ".join(words)


@pytest.mark.parametrize("group", HEADINGS)
def test_the_page_says_what_the_code_says(group: str) -> None:
    """Each rule has a row with its options, their defaults, and what it reads."""
    wanted = expected(group)
    said = {
        name: {column: row[column] for column in wanted.get(name, row)}
        for name, row in rows_of(group).items()
    }
    assert said == wanted
    assert wanted.keys() <= set(plugin_names(group))


@pytest.mark.parametrize("group", HEADINGS)
def test_each_row_says_what_is_not_as_in_nova(group: str) -> None:
    """Each row has text in the column for differences from Nova."""
    assert [name for name, row in rows_of(group).items() if not row["unlike Nova"]] == []


@pytest.mark.parametrize("group", HEADINGS)
def test_the_policy_file_says_what_each_does_once(group: str) -> None:
    """Each rule has one row there, with its options and its multiplier key."""
    text = PAGE.with_name("policy-file.md").read_text("utf-8")
    for entry in entry_points(group=group):
        if not entry.value.startswith(OURS):
            continue
        build = entry.load()
        named = [line for line in text.splitlines() if line.startswith(f"| `{entry.name}` |")]
        if group == FILTERS:  # some filters have a second row for the metadata that they read
            named = named[:1]
        (row,) = named
        wanted = list(options_of(build, entry.name, entry.name))
        built: object = build()
        if isinstance(built, Weigher):
            wanted.append(built.multiplier_key)
        assert [name for name in wanted if name not in row] == [], entry.name


def test_weighers_are_as_the_page_says() -> None:
    """All weighers but one have a metadata key, and all have a share."""
    weighers = [
        entry.load()() for entry in entry_points(group=WEIGHERS) if entry.value.startswith(OURS)
    ]
    assert [one.name for one in weighers if not one.multiplier_key] == ["HostLotWeigher"]
    assert [one.name for one in weighers if one.share is None] == []


def test_the_page_explains_every_group_of_columns() -> None:
    """Every group of host columns is explained."""
    text = PAGE.read_text("utf-8")
    assert [group for group in GROUPS if f"| `{group}` |" not in text] == []
