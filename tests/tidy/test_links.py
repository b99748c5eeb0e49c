"""The links in documents lead to files and headings that exist, and reach every page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.checkout import Checkout
from tests.tidy.markdown_pages import anchors, links

FRONT = Path("docs/README.md")
"""The front page of the documentation, which is also the navigation of the site."""


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("see [the laws](docs/laws.md#one)", ["docs/laws.md#one"]),
        ("![plot](plot.png) and [up](../README.md)", ["plot.png", "../README.md"]),
        ("[here](#laws) [there](https://example.org/a)", ["#laws"]),
        ("[laws]: docs/laws.md", ["docs/laws.md"]),
        ("`[no](link.md)`\n```\n[no](link.md)\n```\n", []),
        ("- [no](a.md)\n  ```\n  [no](link.md)\n  ```\n", ["a.md"]),
    ],
)
def test_links_are_told_from_the_rest(markdown: str, expected: list[str]) -> None:
    """Only links to files and headings count, not code or web addresses."""
    assert links(markdown) == expected


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("## Over the broker", "over-the-broker"),
        ("### `berth up`, in short", "berth-up-in-short"),
        ("# 7. [Guards](x.md) & more", "7-guards--more"),
        ("## SQLite/PostgreSQL (both)", "sqlitepostgresql-both"),
    ],
)
def test_an_anchor_is_the_heading_without_punctuation(heading: str, anchor: str) -> None:
    """Anchors are those that Git hosts and the generator of the site make."""
    assert anchors(heading) == {anchor}


def test_repeated_headings_are_numbered() -> None:
    """The second and the third heading of the same text have anchors of their own."""
    text = "## Why\n```\n## Why\n```\n## Why\n## Why\n"
    assert anchors(text) == {"why", "why-1", "why-2"}


def pages(checkout: Checkout) -> list[Path]:
    """Return the Markdown files of the checkout."""
    return [path for path in checkout.files if path.suffix == ".md"]


def targets(checkout: Checkout, page: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield each link of a page: as written, its file below the root, and its anchor."""
    for link in links(checkout.text(page)):
        name, _, anchor = link.partition("#")
        target = (checkout.root / page.parent / name).resolve() if name else checkout.root / page
        if target.is_relative_to(checkout.root):
            yield link, target.relative_to(checkout.root), anchor
        else:
            yield link, target, anchor


def test_every_link_leads_somewhere(checkout: Checkout) -> None:
    """A reader who follows a link finds a file and, in a page, the heading."""
    known = {page: anchors(checkout.text(page)) for page in pages(checkout)}
    dead = [
        f"{page}: {link}"
        for page in known
        for link, target, anchor in targets(checkout, page)
        if not (checkout.root / target).is_file()
        or (anchor and target in known and anchor not in known[target])
    ]
    assert dead == []


def test_the_front_page_names_every_page_of_the_documentation(checkout: Checkout) -> None:
    """The front page links each page, or a page of its folder that does."""
    named = {FRONT}
    for page in (FRONT, Path("docs/adr/README.md")):
        named |= {target for _, target, _ in targets(checkout, page)}
    documents = {page for page in pages(checkout) if page.is_relative_to("docs")}
    assert sorted(documents - named) == [], f"add a line to {FRONT}, or to docs/adr/README.md"
