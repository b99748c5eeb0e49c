"""The `berth` command: help with few imports, and errors without tracebacks."""

import subprocess
import sys
from importlib import import_module

import click
import pytest

from berth import __version__
from berth.cli.main import COMMANDS
from tests.unit.cli.command_tree import nodes
from tests.unit.cli.conftest import Run

HEAVY = ("numpy", "httpx", "rich", "msgspec", "sqlalchemy", "starlette", "uvicorn", "bcrypt")


def test_help_imports_nothing_heavy() -> None:
    """`berth --help` imports no large package, so it is fast."""
    program = (
        "import sys\n"
        "from berth.cli.main import main\n"
        "assert main(['--help']) == 0\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr.strip() == ""
    assert "decide" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_is_true(name: str) -> None:
    """Every listed command exists under its name and has help."""
    module, _, attribute = COMMANDS[name].where.partition(":")
    command = getattr(import_module(f"berth.cli.commands.{module}"), attribute)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.help


def test_every_option_of_every_command_is_named_once() -> None:
    """No command has two options of one name, and each subcommand has help."""
    for path, command in nodes():
        names = [name for parameter in command.params for name in parameter.opts]
        assert len(names) == len(set(names)), path
        assert command.get_short_help_str(), path


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["server", "nonsense"], ["server", "create"], ["decide"], ["--nonsense"]],
)
def test_a_wrong_command_line_ends_with_2(run: Run, words: list[str]) -> None:
    """The error is on standard error only."""
    ended = run(*words)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err


def test_a_fault_in_berth_shows_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error is printed as one line; `--debug` adds the traceback."""

    def fail(path: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("berth.config.policy_file.load_policy", fail)
    ended = run("policy", "check", "x")
    assert ended.code == 1
    assert ended.err.splitlines() == [
        (
            "berth: this is a bug in Berth (ZeroDivisionError: oh); run the command again with "
            "`berth --debug` and report the output"
        )
    ]
    ended = run("--debug", "policy", "check", "x")
    assert ended.code == 1
    assert "Traceback" in ended.err


def test_an_interrupt_ends_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the command with 130 and without a traceback."""

    def interrupt(path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("berth.config.policy_file.load_policy", interrupt)
    ended = run("policy", "check", "x")
    assert ended.code == 130
    assert "Traceback" not in ended.err


def test_the_version_says_whether_the_kernel_is_used(run: Run, engine: str) -> None:
    """`--version` prints the version and whether the kernel is used."""
    said = run("--version").out
    assert said.startswith(f"berth {__version__}, ")
    assert ("without kernel" in said) == (engine == "numpy")
