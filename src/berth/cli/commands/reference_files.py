"""The generated files of `docs/reference`, apart from those of metrics.

`make reference` writes them, and those of metrics, after a change of a type, a setting, a command
or a route.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from berth.cli.commands.commands_page import commands_page
from berth.cli.commands.schemas import rendered, schemas
from berth.cli.commands.settings_page import settings_page


def reference_files() -> Iterator[tuple[str, str]]:
    """Yield the name of each file, below `docs/reference`, and its text."""
    for name, schema in schemas():
        yield name, rendered(schema)
    yield "commands.md", commands_page()
    yield "settings.md", settings_page()


def write_reference(folder: Path) -> None:
    """Write all files to a folder."""
    for name, text in reference_files():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    write_reference(Path(sys.argv[1]))
