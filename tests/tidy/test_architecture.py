"""The table "Where does it go?" has every kind of change and names only files that exist."""

import re
from pathlib import Path

import pytest

from tests.tidy.checkout import Checkout

PAGE = Path("docs/architecture.md")
SECTION = re.compile(r"^## Where does it go\?\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| ([^|]+?) \| (.+) \|$", re.MULTILINE)
PATH = re.compile(r"`([\w./-]+(?:\.py|\.md|\.toml|/))`")
# Any other path is below src/berth.
FROM_THE_ROOT = (
    "docs/",
    "tests/",
    "bench/",
    "deploy/",
    "kernel/",
    "pyproject.toml",
    "CHANGELOG.md",
)
CHANGES = {
    "filter",
    "weigher",
    "cost",
    "driver",
    "server action",
    "HTTP route",
    "microversion",
    "resource class",
    "record kind",
    "call of agents",
    "query to agents",
    "transport of agents",
    "ledger write",
    "ledger backend",
    "metric",
    "notification",
    "setting",
    "CLI command",
}


def rows_of(page: str) -> dict[str, str]:
    """Return the second cell of each row of the table, by the kind of change in the first."""
    section = SECTION.search(page)
    assert section is not None
    _header, *rows = ROW.findall(section[1])
    return dict(rows)


def paths_in(cell: str) -> list[Path]:
    """Return the files and folders that a cell names, below the root of the checkout."""
    return [
        Path(name) if name.startswith(FROM_THE_ROOT) else Path("src/berth", name)
        for name in PATH.findall(cell)
    ]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("`MAX` in `api/microversion.py`", ["src/berth/api/microversion.py"]),
        ("`config/`, `docs/reference/cli.md`", ["src/berth/config", "docs/reference/cli.md"]),
        ("its entry point in `pyproject.toml`", ["pyproject.toml"]),
        ("`ledger.url`, `docs/reference/*.schema.json`", []),
    ],
)
def test_paths_are_found(cell: str, expected: list[str]) -> None:
    """Modules, pages, TOML files and folders are paths; names in code and patterns are not."""
    assert [path.as_posix() for path in paths_in(cell)] == expected


def test_the_table_has_every_change(checkout: Checkout) -> None:
    """Each kind of change has a row, and each row names a file."""
    rows = rows_of(checkout.text(PAGE))
    assert rows.keys() == CHANGES
    assert [change for change, cell in rows.items() if not paths_in(cell)] == []


def test_every_path_in_the_table_exists(checkout: Checkout) -> None:
    """A contributor finds each file and folder where the table says."""
    known = {known for path in checkout.files for known in (path, *path.parents)}
    missing = [
        f"{change}: {path}"
        for change, cell in rows_of(checkout.text(PAGE)).items()
        for path in paths_in(cell)
        if path not in known
    ]
    assert missing == []
