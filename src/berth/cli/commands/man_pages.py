"""The manual pages, generated from the parsers: `berth(1)`, and one for each command.

`make reference` writes them to `deploy/man`; the wheel installs them in `share/man/man1`.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from berth.cli.command import CONNECTION_OPTIONS, GLOBAL_FLAGS, GlobalOption
from berth.cli.commands.completion import completion_files
from berth.cli.failures import ExitCode
from berth.cli.main import COMMANDS, berth

# The day on which the form of the pages last changed. The day of the build would make two builds of
# one commit differ.
_DATE: Final = "2026-11-29"
_MEANINGS: Final = {
    ExitCode.OK: "Done.",
    ExitCode.FAILED: "The operation failed or was refused, or there is a fault in Berth.",
    ExitCode.USAGE: "The command line, a file or a setting is wrong; nothing was done.",
    ExitCode.NO_VALID_HOST: "No host can take the request.",
    ExitCode.NOT_FOUND: "There is no such server, flavor, host, request and so on.",
    ExitCode.UNREACHABLE: "The service cannot be reached, or is unavailable.",
    ExitCode.CONFLICT: "It already exists, is in use, or has changed meanwhile.",
}
_FILES: Final = (
    ("$XDG_CONFIG_HOME/berth/contexts.toml", "Contexts, see berth-context(1)."),
    ("clouds.yaml, secure.yaml", "Clouds, for --os-cloud and OS_CLOUD."),
)
# Characters that roff would interpret or replace, with what prints them as they are.
_ESCAPES: Final = {
    "\\": r"\e",
    "-": r"\-",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
    '"': r"\(dq",
}
_BLANKS: Final = re.compile(r"\s+")


def installed_files() -> Iterator[tuple[str, str]]:
    """Yield the path below `deploy`, and the text, of each page and each script of completion."""
    for name, text in man_pages():
        yield f"man/{name}", text
    for name, text in completion_files():
        yield f"completion/{name}", text


def write_installed(folder: Path) -> None:
    """Write all files below a folder, and remove the pages of commands that are gone."""
    files = dict(installed_files())
    for part in ("man", "completion"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for path in (folder / part).iterdir():
            if f"{part}/{path.name}" not in files:
                path.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")


def man_pages() -> Iterator[tuple[str, str]]:
    """Yield the file name and the text of each page."""
    root = click.Context(berth, info_name="berth")
    yield "berth.1", _text(_main_page(root))
    for name in berth.list_commands(root):
        command = berth.get_command(root, name)
        if command is not None:
            context = click.Context(command, info_name=name, parent=root)
            yield f"berth-{name}.1", _text(_command_page(context))


def _text(lines: Iterator[str]) -> str:
    return "\n".join([*lines, ""])


def _main_page(root: click.Context) -> Iterator[str]:
    yield from _head("berth", "cloud scheduler that decides which host each instance runs on")
    yield ".SH SYNOPSIS"
    yield f".B {_plain('berth')}"
    yield f"{_plain('[OPTIONS] COMMAND [ARGUMENTS]')}"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(root.command.help or "")
    yield ".SH COMMANDS"
    for section in dict.fromkeys(lazy.section for lazy in COMMANDS.values()):
        yield f".SS {_quoted(section)}"
        for name, lazy in COMMANDS.items():
            if lazy.section == section:
                yield from _item(f"berth-{name}(1)", lazy.help)
    yield ".SH OPTIONS"
    yield "They may stand before or after the name of a command, if the command takes them."
    for name, text in GLOBAL_FLAGS.items():
        yield from _item(name, text)
    for name, (_, text) in CONNECTION_OPTIONS.items():
        yield from _item(f"{name} TEXT", text)
    yield from _item("-h, --help", "Show the help of a command.")
    yield from _item("--version", "Print the version.")
    yield ".SH ENVIRONMENT"
    for name, (variable, _) in CONNECTION_OPTIONS.items():
        yield from _item(variable, f"Used without {name}.")
    yield ".SH FILES"
    for path, text in _FILES:
        yield from _item(path, text)
    yield from _exit_status()
    yield ".SH SEE ALSO"
    yield _plain(", ".join(f"berth-{name}(1)" for name in COMMANDS))


def _command_page(context: click.Context) -> Iterator[str]:
    command = context.command
    name = f"berth-{context.info_name}"
    lazy = COMMANDS[str(context.info_name)]
    yield from _head(name, lazy.help.rstrip(".")[:1].lower() + lazy.help.rstrip(".")[1:])
    leaves = list(_leaves(context))
    yield ".SH SYNOPSIS"
    for leaf in leaves:
        if leaf is not leaves[0]:
            yield ".br"
        yield f".B {_plain(leaf.command_path)}"
        yield _plain(_words(leaf))
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help or "")
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for leaf in leaves:
            yield f".SS {_quoted(f'{leaf.command_path} {_words(leaf)}'.rstrip())}"
            yield from _paragraphs(leaf.command.help or "")
            yield from _options(leaf)
    elif _own_options(context):
        yield ".SH OPTIONS"
        yield from _options(context)
    if any(_uses_connection(leaf) for leaf in leaves):
        yield ".SH CONNECTION"
        names = ", ".join(CONNECTION_OPTIONS)
        yield _plain(f"For the options {names} and their variables, see berth(1).")
    yield ".SH EXIT STATUS"
    yield _plain("See berth(1).")
    yield ".SH SEE ALSO"
    yield _plain("berth(1)")


def _head(name: str, summary: str) -> Iterator[str]:
    yield '.\\" Generated by `make reference` from the parsers; change those instead.'
    yield f".TH {name.upper()} 1 {_DATE} Berth"
    # A name that is hyphenated at the end of a line could not be copied.
    yield ".nh"
    yield ".ad l"
    yield ".SH NAME"
    yield f"{_plain(name)} \\- {_plain(summary)}"


def _exit_status() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, text in _MEANINGS.items():
        yield from _item(str(code.value), text)
    yield from _item("130", "Interrupted.")


def _leaves(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of each command below a context that is not a group."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        part = command.get_command(context, name)
        if part is not None and not part.hidden:
            yield from _leaves(click.Context(part, info_name=name, parent=context))


def _words(context: click.Context) -> str:
    """Return the arguments of a command as its usage shows them."""
    arguments = [one for one in context.command.params if isinstance(one, click.Argument)]
    words = [one.make_metavar(context) for one in arguments]
    return " ".join([*words, "[OPTIONS]"] if _own_options(context) else words)


def _own_options(context: click.Context) -> list[click.Option]:
    """Return the options of a command without those of the connection."""
    return [
        one
        for one in context.command.params
        if isinstance(one, click.Option) and not one.hidden and not _is_connection(one)
    ]


def _is_connection(option: click.Parameter) -> bool:
    return isinstance(option, GlobalOption) and option.opts[0] in CONNECTION_OPTIONS


def _uses_connection(context: click.Context) -> bool:
    return any(_is_connection(one) for one in context.command.params)


def _options(context: click.Context) -> Iterator[str]:
    for option in _own_options(context):
        names = ", ".join((*option.opts, *option.secondary_opts))
        value = "" if option.is_flag or option.count else f" {option.make_metavar(context)}"
        text = _BLANKS.sub(" ", option.help or "").strip()
        if option.required:
            text = f"{text} Required.".strip()
        if option.show_default and isinstance(option.default, str | int | float):
            text = f"{text} By default {option.default}.".strip()
        variables = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
        if variables:
            text = f"{text} Variable: {', '.join(variables)}.".strip()
        yield from _item(f"{names}{value}", text)


def _item(term: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_plain(term)}"
    # roff drops an item without a text and joins its term to the next one.
    yield _plain(text) if text else "\\&"


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.replace("\b", "").split("\n\n")):
        if number:
            yield ".PP"
        yield _plain(_BLANKS.sub(" ", paragraph).strip())


def _quoted(text: str) -> str:
    """Return a text as one argument of a macro."""
    return f'"{_plain(text)}"'


def _plain(text: str) -> str:
    """Return a line that roff prints as it is."""
    escaped = "".join(
        _ESCAPES.get(char, char) if char.isascii() else f"\\[u{ord(char):04X}]" for char in text
    )
    # A line that begins with a dot would be taken for a macro.
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    write_installed(Path(sys.argv[1]))
