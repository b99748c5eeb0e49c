"""Exit codes, and the mapping of errors to them (see docs/reference/cli.md)."""

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
    """Exit codes of commands; scripts depend on the numbers."""

    OK = 0
    FAILED = 1
    # 2 is also click's own code for a wrong command line.
    USAGE = 2
    NO_VALID_HOST = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    CONFLICT = 6


class CommandError(BerthError):
    """A command failed.

    Args:
        message: what went wrong and what to do about it.
        code: the exit code.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


# The first matching class decides, so a subclass must come before its base class.
_CODES: tuple[tuple[type[BerthError], ExitCode], ...] = (
    (InvalidInputError, ExitCode.USAGE),
    (PolicyError, ExitCode.USAGE),
    (NoValidHostError, ExitCode.NO_VALID_HOST),
    (NotFoundError, ExitCode.NOT_FOUND),
    (UnavailableError, ExitCode.UNREACHABLE),
    (ConflictError, ExitCode.CONFLICT),
)


def exit_code_of(error: BerthError) -> ExitCode:
    """Return the exit code of an error."""
    if isinstance(error, CommandError):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)


def end_with(code: int) -> NoReturn:
    """Exit the running command with the given exit code."""
    # `sys.exit` would end the process, but `main` must return the code to its caller.
    click.get_current_context().exit(code)
