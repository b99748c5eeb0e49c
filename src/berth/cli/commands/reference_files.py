"""The generated files of `docs/reference`, apart from those of metrics.

`make reference` writes them, and those of metrics, after a change of a type, a setting, a command
or a route.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from berth import __version__
from berth.api.app import OPERATIONS
from berth.api.openapi import openapi_document
from berth.api.placement.openapi import placement_paths
from berth.cli.commands.commands_page import commands_page
from berth.cli.commands.schemas import rendered, schemas
from berth.cli.commands.settings_page import settings_page

_ABOUT: Final = (
    "All operations of Berth's HTTP APIs. A running Berth serves those of all APIs but Placement "
    "at /openapi.json. The paths of Placement begin with /placement; `berth placement` serves them "
    "without it. Operations with microversions are described in the newest one."
)


def openapi_file() -> dict[str, Any]:
    """Return the OpenAPI document of all APIs, as plain JSON values."""
    document = openapi_document(OPERATIONS, __version__)
    document["paths"] |= placement_paths()
    document["info"]["description"] = _ABOUT
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return plain


def reference_files() -> Iterator[tuple[str, str]]:
    """Yield the name of each file, below `docs/reference`, and its text."""
    for name, schema in schemas():
        yield name, rendered(schema)
    yield "openapi.json", rendered(openapi_file())
    yield "commands.md", commands_page()
    yield "settings.md", settings_page()


def write_reference(folder: Path) -> None:
    """Write all files to a folder."""
    for name, text in reference_files():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    write_reference(Path(sys.argv[1]))
