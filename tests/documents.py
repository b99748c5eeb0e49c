"""Executes the commands of a page of the documentation, as its reader would."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = re.compile(r"^([ ]*)```(\w+)\n(.*?)^\1```[ ]*$", re.DOTALL | re.MULTILINE)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NUMBER = re.compile(r"\d[\d,.]*")
_BLANKS = re.compile(r"\s+")
_MARK = "=== block "


@dataclass
class Step:
    """A block of commands, and the lines that the page shows of their output.

    Attributes:
        script: the commands.
        shown: the lines of the blocks of output before the next commands.
    """

    script: str
    shown: list[str] = field(default_factory=list[str])


def steps_of(markdown: str) -> list[Step]:
    """Return the blocks marked `sh`, each with the lines of the blocks marked `text` after it."""
    steps: list[Step] = []
    for match in _BLOCK.finditer(markdown):
        indent, language, text = match.groups()
        lines = [line.removeprefix(indent) for line in text.splitlines()]
        if language == "sh":
            steps.append(Step("\n".join(lines)))
        elif language == "text" and steps:
            steps[-1].shown += [line for line in lines if line.strip()]
    return steps


def run_steps(
    steps: Sequence[Step], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> list[str]:
    """Execute the commands of all steps in one shell, and return the output of each step.

    Args:
        steps: the steps, in order.
        folder: the working directory.
        environment: all environment variables.
        timeout_s: how long all of them may take.

    Raises:
        AssertionError: a command failed; the message has its step and all output.
    """
    # A page that fails half-way leaves the services that it has started in the background.
    parts = ["set -e", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"]
    for number, step in enumerate(steps):
        parts += [f"printf '\\n{_MARK}%s\\n' {number}", step.script]
    done = subprocess.run(
        ["bash", "-c", "\n".join(parts)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    # The mark has its own line even if a command prints no newline at its end.
    _, *outputs = re.split(rf"\n{_MARK}\d+\n", done.stdout)
    if done.returncode:
        failed = steps[len(outputs) - 1].script if outputs else ""
        raise AssertionError(f"exit code {done.returncode} in\n{failed}\n\n{done.stdout}")
    return outputs


def missing_lines(step: Step, output: str) -> list[str]:
    """Return the shown lines that the output does not have.

    Numbers, ids and the width of columns do not count, and `…` stands for any text.
    """
    printed = [_shape(line) for line in output.splitlines()]
    return [
        line for line in step.shown if not any(re.search(_pattern(line), one) for one in printed)
    ]


def _shape(line: str) -> str:
    """Return a line with fixed ids and numbers, and single blanks."""
    return _BLANKS.sub(" ", _NUMBER.sub("N", _UUID.sub("ID", line))).strip()


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in _shape(line).split("…"))
