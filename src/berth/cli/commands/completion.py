"""`berth completion`: scripts that complete commands, options and names in a shell.

`make reference` writes them to `deploy/completion`; the wheel installs them where the shells look
for completions.
"""

import sys
from collections.abc import Iterator
from typing import Final

import click
from click.shell_completion import get_completion_class

from berth.cli.command import OneOf, berth_command

SHELLS: Final = ("bash", "zsh", "fish")
# The variable by which the scripts call `berth`; click derives the same name.
_VARIABLE: Final = "_BERTH_COMPLETE"
_FILES: Final = {"bash": "berth.bash", "zsh": "_berth", "fish": "berth.fish"}


@berth_command("completion")
@click.argument("shell", type=OneOf(SHELLS))
def completion(*, shell: str) -> None:
    """Print the script that completes `berth` in SHELL: bash, zsh or fish.

    Put `eval "$(berth completion bash)"` into ~/.bashrc, `eval "$(berth completion zsh)"` into
    ~/.zshrc after compinit, or `berth completion fish | source` into ~/.config/fish/config.fish.

    Names of servers, flavors, hosts and so on are completed if the current context or the
    environment has an address and an account, and no password must be typed.
    """
    sys.stdout.write(script(shell))


def script(shell: str) -> str:
    """Return the script for a shell."""
    kind = get_completion_class(shell)
    if kind is None:
        raise AssertionError(f"click has no completion for {shell}")
    # The group is needed only to complete, not for the script; `source` of bash would start a bash
    # to check its version.
    made = kind(click.Group(), {}, "berth", _VARIABLE)
    return f"{(made.source_template % made.source_vars()).strip()}\n"


def completion_files() -> Iterator[tuple[str, str]]:
    """Yield the name of the file for each shell, and its text."""
    for shell, name in _FILES.items():
        yield name, script(shell)
