"""The links in documents lead to files that exist."""

import re
from pathlib import Path

import pytest

from tests.tidy.checkout import Checkout

CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]^]+\]:\s*<?([^\s>]+)", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)


def relative_links(markdown: str) -> list[str]:
    """Return the targets of links to files, without their fragments."""
    prose = CODE.sub("", markdown)
    targets = INLINE.findall(prose) + REFERENCE.findall(prose)
    return [target.partition("#")[0] for target in targets if not ELSEWHERE.match(target)]


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("see [the laws](docs/laws.md#one)", ["docs/laws.md"]),
        ("![plot](plot.png) and [up](../README.md)", ["plot.png", "../README.md"]),
        ("[here](#laws) [there](https://example.org/a)", []),
        ("[laws]: docs/laws.md", ["docs/laws.md"]),
        ("`[no](link.md)`\n```\n[no](link.md)\n```\n", []),
    ],
)
def test_links_are_told_from_the_rest(markdown: str, expected: list[str]) -> None:
    """Only links to files count, not code, web addresses or fragments of the same file."""
    assert relative_links(markdown) == expected


def test_every_relative_link_leads_somewhere(checkout: Checkout) -> None:
    """A reader who follows a link finds a file or a folder."""

    def leads_nowhere(path: Path, target: str) -> bool:
        return not (checkout.root / path.parent / target).exists()

    dead = [
        f"{path}: {target}"
        for path in checkout.files
        if path.suffix == ".md"
        for target in relative_links(checkout.text(path))
        if leads_nowhere(path, target)
    ]
    assert dead == []
