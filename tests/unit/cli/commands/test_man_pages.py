"""Manual pages: complete, up to date, and rendered without warnings."""

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from berth.cli.commands.man_pages import installed_files, man_pages, write_installed
from tests.unit.cli.command_tree import leaves

DEPLOY = Path(__file__).parents[4] / "deploy"
PAGES = dict(man_pages())


def shown(name: str) -> str:
    """Return a page as text, without escapes and macros."""
    text = PAGES[name].replace("\\-", "-").replace("\\(aq", "'").replace("\\(ga", "`")
    return re.sub(r"^\.(B|SS) ", "", text, flags=re.MULTILINE)


def test_the_installed_files_are_up_to_date() -> None:
    """`make reference` writes them after a change of a command."""
    files = {
        f"{part}/{path.name}": path.read_text("utf-8")
        for part in ("man", "completion")
        for path in (DEPLOY / part).iterdir()
    }
    assert files == dict(installed_files()), "run `make reference`"


def test_files_of_commands_that_are_gone_are_removed(tmp_path: Path) -> None:
    """A page of a former command does not stay."""
    write_installed(tmp_path)
    (tmp_path / "man" / "berth-gone.1").touch()
    write_installed(tmp_path)
    assert {path.name for path in (tmp_path / "man").iterdir()} == set(PAGES)


def test_every_command_and_option_is_in_a_page() -> None:
    """The page of a command has all its subcommands, options and help."""
    for path, command in leaves():
        page = shown(f"berth-{path[0]}.1")
        assert f"berth {' '.join(path)}" in page
        for one in command.params:
            if isinstance(one, click.Option) and not one.hidden:
                assert one.opts[0] in page, path
        assert f"berth-{path[0]}(1)" in shown("berth.1")


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_pages_are_rendered_without_warnings() -> None:
    """Groff with all warnings prints none, for all pages at once."""
    command = ["groff", "-man", "-ww", "-Tutf8", "-rCHECKSTYLE=3", "-z"]
    pages = "".join(PAGES.values())
    done = subprocess.run(command, input=pages, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_mandoc_accepts_the_pages() -> None:
    """The BSDs' formatter has no warnings either."""
    command = ["mandoc", "-T", "lint", "-W", "warning", *map(str, (DEPLOY / "man").iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
