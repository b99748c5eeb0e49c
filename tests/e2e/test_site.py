"""The site of the documentation is built without a warning, and a dead link would be one."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SPHINX = ROOT / ".venv-site" / "bin" / "sphinx-build"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not _SPHINX.exists(), reason="no .venv-site; make site-tools"),
]


def _build(source: Path, target: Path) -> "subprocess.CompletedProcess[str]":
    """Build a site as `make site` does."""
    return subprocess.run(
        [
            *(str(_SPHINX), "-q", "-W", "--keep-going", "-b", "html"),
            *("-c", str(ROOT / "docs"), "-d", str(target / "cache")),
            *(str(source), str(target / "site")),
        ],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_site_is_built_and_its_navigation_has_every_page(tmp_path: Path) -> None:
    """No page has a warning, and the navigation leads to all pages that the front page lists."""
    done = _build(ROOT, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    site = tmp_path / "site"
    assert "docs/README.html" in (site / "index.html").read_text()
    front = (ROOT / "docs" / "README.md").read_text()
    pages = re.findall(r"^- \[[^]]+\]\(([^)#]+)\.md\)", front, re.MULTILINE)
    shown = (site / "docs" / "guides" / "operate.html").read_text()
    captions = re.findall(r'class="caption-text">([^<]+)<', shown)
    assert {"Guides", "Reference", "Explanation", "Project"} <= set(captions)
    links = {
        (site / "docs" / "guides" / link).resolve()
        for link in re.findall(r'href="([^"#]+)"', shown)
    }
    # The page that is shown links itself by its anchor only.
    wanted = {site / "docs" / f"{page}.html" for page in pages} - {
        site / "docs/guides/operate.html"
    }
    assert len(pages) > 20
    assert sorted(wanted - links) == []


def test_a_dead_link_fails_the_build(tmp_path: Path) -> None:
    """A link to a missing page, to a missing heading or to a folder is an error that names it."""
    source = tmp_path / "source"
    (source / "docs").mkdir(parents=True)
    for page in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY", "bench/peers/README"):
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        (source / f"{page}.md").write_text("# A\n\n## A heading\n\nText.\n")
    links = ("../SECURITY.md#a-heading", "../SECURITY.md#gone", "missing.md", "../docs")
    text = "".join(f"[it]({link})\n" for link in links)
    (source / "docs" / "README.md").write_text(f"# A\n\n## A heading\n\n{text}")
    done = _build(source, tmp_path)
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert done.returncode == 1
    named = [re.findall(r"'(gone|missing\.md|\.\./docs)'", line) for line in warnings]
    assert named == [["gone"], ["missing.md"], ["../docs"]], done.stderr
