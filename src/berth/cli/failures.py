"""Failures: exit codes, and which error leads to which (docs/reference/cli.md)."""

from enum import IntEnum
from typing import NoReturn

import click

from berth.domain.compute.decision import NoValidHostError
from berth.domain.errors import (
    BerthError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    PolicyError,
    UnavailableError,
)


class ExitCode(IntEnum):
    """What a command tells the program that called it."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_VALID_HOST = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    CONFLICT = 6


class CommandError(BerthError):
    """A command failed; its message says what to do and its code says how it ended."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


_CODES: tuple[tuple[type[BerthError], ExitCode], ...] = (
    (InvalidInputError, ExitCode.USAGE),
    (PolicyError, ExitCode.USAGE),
    (NoValidHostError, ExitCode.NO_VALID_HOST),
    (NotFoundError, ExitCode.NOT_FOUND),
    (UnavailableError, ExitCode.UNREACHABLE),
    (ConflictError, ExitCode.CONFLICT),
)


def exit_code_of(error: BerthError) -> ExitCode:
    """Return the exit code that an error leads to."""
    if isinstance(error, CommandError):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)


def end_with(code: int) -> NoReturn:
    """End the command that is running with an exit code."""
    click.get_current_context().exit(code)
