"""Builds the documentation as a site (`make site`): Sphinx with MyST and the theme Furo.

The pages stay plain Markdown. The navigation comes from the links of docs/README.md: each of its
sections becomes one of the site.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

# The pages outside of `docs`, without suffix.
_PEERS = "bench/peers/README"
_BESIDE = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY", _PEERS)

project = "Berth"
author = "The Berth authors"
copyright = "the Berth authors, Apache-2.0"  # noqa: A001 - Sphinx reads this name
html_title = "Berth"
extensions = ["myst_parser"]
html_theme = "furo"
html_show_sourcelink = False
html_copy_source = False

# The source folder is the root of the repository, so links to pages beside `docs` work as well.
root_doc = "docs/README"
include_patterns = ["docs/**", "*.md", f"{_PEERS}.md"]
exclude_patterns = ["docs/examples/**", "docs/**/*.py"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 6
# A reference that leads nowhere is a warning, and `make site` fails on warnings.
nitpicky = True

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_ITEM = re.compile(r"^- \[[^\]]+\]\(([^)#]+)\.md\)", re.MULTILINE)
_RECORDS = "docs/adr/README"
_FRONT = """<!doctype html>
<title>Berth</title>
<meta http-equiv="refresh" content="0; url=docs/README.html">
<a href="docs/README.html">The documentation of Berth</a>
"""


def _toctree(caption: str, pages: list[str]) -> str:
    head = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{head}\n" + "\n".join(pages) + "\n```\n"


def _add_navigation(_: Sphinx, name: str, source: list[str]) -> None:
    """Append the tables of contents to the front page and to the list of decision records."""
    if name == root_doc:
        _, *parts = _SECTION.split(source[0])
        for caption, text in zip(parts[::2], parts[1::2], strict=True):
            source[0] += _toctree(caption, _ITEM.findall(text))
        source[0] += _toctree("Project", [f"../{page}" for page in _BESIDE])
    elif name == _RECORDS:
        source[0] += _toctree("", _ITEM.findall(source[0]))


def _write_front(app: Sphinx, error: Exception | None) -> None:
    """Write the page at the root of the site, which leads to the front page."""
    if error is None:
        (Path(app.outdir) / "index.html").write_text(_FRONT, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions of this file."""
    app.connect("source-read", _add_navigation)
    app.connect("build-finished", _write_front)
    return {"parallel_read_safe": True}
