"""Tests for the deprecated names of modules and classes that plugins import."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from berth.former_names import FORMER_MODULES, FORMER_NAMES
from berth.scheduling.evaluation.ranking import FullRanking, Ranking
from berth.scheduling.rules.rule import Filter

_PUBLIC_OF_RULES = ("Filter", "Weigher", "Query", "Reads", "Scores", "without")


@pytest.mark.parametrize("former", FORMER_MODULES)
def test_a_former_module_is_found_and_warns(former: str) -> None:
    """A former module name warns, and its names are those of the present module."""
    sys.modules.pop(former, None)
    present, names = FORMER_MODULES[former]
    with pytest.warns(DeprecationWarning, match=f"{former} is now {present}"):
        module = importlib.import_module(former)
    target = importlib.import_module(present)
    for old, new in names.items():
        assert getattr(module, old) is getattr(target, new)


@pytest.mark.parametrize("module", FORMER_NAMES)
def test_a_former_name_is_found_and_warns(module: str) -> None:
    """A former name in a module warns and leads to the present name."""
    target = importlib.import_module(module)
    for old, new in FORMER_NAMES[module].items():
        with pytest.warns(DeprecationWarning, match=f"{old} is now {module}.{new}"):
            assert getattr(target, old) is getattr(target, new)


@pytest.mark.parametrize(
    "statement",
    [
        "import berth.domain.host",
        "from berth.domain.host import Host",
        "from berth.ports.virt import Driver",
    ],
)
def test_a_warning_names_the_line_with_the_former_name(statement: str, tmp_path: Path) -> None:
    """The warning points to the plugin's own line that uses the former name."""
    plugin = tmp_path / "plugin.py"
    plugin.write_text(f"def use():\n    {statement}\n\nuse()\n")
    # In a process of its own, since tools that trace tests wrap the import system.
    words = [sys.executable, "-W", "always::DeprecationWarning", str(plugin)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    warned = [line for line in done.stderr.splitlines() if " is now " in line]
    assert warned
    assert all(line.startswith(f"{plugin}:2: DeprecationWarning: ") for line in warned)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_rules_are_the_same_objects_under_both_paths() -> None:
    """The former and the present path of the rules give the same objects."""
    former = importlib.import_module("berth.scheduling.rule")
    present = importlib.import_module("berth.scheduling.rules.rule")
    assert former.Filter is Filter
    assert [getattr(former, name) for name in _PUBLIC_OF_RULES] == [
        getattr(present, name) for name in _PUBLIC_OF_RULES
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_name_that_changed_its_meaning_follows_the_path() -> None:
    """`Ranking` of the former module is the class `FullRanking`, not the present protocol."""
    former = importlib.import_module("berth.scheduling.ranking")
    assert former.Ranking is FullRanking
    assert former.Ranked is Ranking


@pytest.mark.parametrize("name", ["berth.scheduling.nowhere", "berth.rule"])
def test_other_modules_stay_unknown(name: str) -> None:
    """Importing an unknown module raises ModuleNotFoundError."""
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)


def test_a_name_that_never_was_stays_unknown() -> None:
    """Accessing an unknown name raises AttributeError."""
    ports = importlib.import_module("berth.ports.virt")
    with pytest.raises(AttributeError, match="Drivers"):
        _ = ports.Drivers


def test_berth_itself_uses_no_former_name() -> None:
    """The command line of Berth imports without a deprecation warning from Berth."""
    code = "import berth.cli.main, berth.cli.commands.serving, berth.app.processes"
    command = [sys.executable, "-W", "error::DeprecationWarning:berth", "-c", code]
    assert subprocess.run(command, check=False).returncode == 0
