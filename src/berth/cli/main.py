"""The `berth` command: the list of its parts, and the one place where errors become exit codes."""

import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper

import click

from berth import __version__
from berth.cli.failures import ExitCode, exit_code_of
from berth.cli.lazy import LazyCommand, LazyGroup
from berth.domain.errors import BerthError

_CLOUD = "Use a running Berth"
_FILES = "Decide offline"
_RUN = "Run Berth"

COMMANDS: Mapping[str, LazyCommand] = {
    "server": LazyCommand("servers:servers", "Create, show, move and delete servers.", _CLOUD),
    "flavor": LazyCommand("flavors:flavors", "Manage flavors.", _CLOUD),
    "group": LazyCommand("server_groups:groups", "Manage server groups.", _CLOUD),
    "quota": LazyCommand("quotas:quotas", "Limit what projects may have.", _CLOUD),
    "aggregate": LazyCommand("aggregates:aggregates", "Manage host aggregates.", _CLOUD),
    "host": LazyCommand("hosts:hosts", "List, show and evacuate hosts.", _CLOUD),
    "migration": LazyCommand("migrations:migrations", "List moves of servers.", _CLOUD),
    "service": LazyCommand(
        "services:services", "List, enable and disable compute services.", _CLOUD
    ),
    "zone": LazyCommand("zones:zones", "Manage child zones, and keys between zones.", _CLOUD),
    "explain": LazyCommand("decisions:explain", "Explain a decision that was made.", _CLOUD),
    "capacity": LazyCommand(
        "capacity:capacity", "Count how many more of a flavor would fit.", _CLOUD
    ),
    "candidates": LazyCommand("candidates:candidates", "Explain allocation candidates.", _CLOUD),
    "audit": LazyCommand(
        "audit:audit",
        "Find lost capacity and what else is wrong; mend it.",
        _CLOUD,
    ),
    "state": LazyCommand("state:state", "Export the state of the fleet.", _CLOUD),
    "policy": LazyCommand("policy:policy", "Show, check and reload the policy.", _CLOUD),
    "decide": LazyCommand("decide:decide", "Decide on files and explain every step.", _FILES),
    "up": LazyCommand("serving:up", "Run everything in one process.", _RUN),
    "api": LazyCommand("serving:api", "Run the HTTP API.", _RUN),
    "placement": LazyCommand("serving:placement", "Run the Placement API alone.", _RUN),
    "scheduler": LazyCommand("serving:scheduler", "Run a scheduler.", _RUN),
    "agent": LazyCommand("serving:agent", "Run the agent of a compute host.", _RUN),
    "ledger": LazyCommand("serving:ledger", "Look after the ledger.", _RUN),
    "db": LazyCommand("serving:db", "Upgrade the ledger.", _RUN),
    "user": LazyCommand("users:users", "Manage the users who have passwords.", _RUN),
    "token-keys": LazyCommand("users:token_keys", "Look after the keys that seal tokens.", _RUN),
    "replay": LazyCommand("lab:replay", "Replay a workload against a running Berth.", "Try it out"),
    "demo": LazyCommand("lab:demo", "Show Berth at work.", "Try it out"),
    "demo-zones": LazyCommand("lab:demo_zones", "Show a tree of zones at work.", "Try it out"),
}

_INTERRUPTED = 130


@dataclass(slots=True)
class Session:
    """What the options before the command say."""

    debug: bool = False


def _say_version(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001, as click calls it
    if not value or context.resilient_parsing:
        return
    # Not at the top: numpy takes longer to load than most commands take.
    from berth.scheduling.engine.kernel import kernel  # noqa: PLC0415

    found = kernel()
    how = "without kernel" if found is None else f"with kernel {found.API}"
    click.echo(f"berth {__version__}, {how}")
    context.exit()


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--debug", is_flag=True, help="Show a traceback when something goes wrong.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Say which Berth this is, and whether it has its kernel.",
)
@click.pass_obj
def berth(session: Session, *, debug: bool) -> None:
    """Berth decides which host each instance runs on.

    Commands that use a running Berth find it by --url or BERTH_URL.
    """
    session.debug = debug


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    session = Session()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode gets question marks
    try:
        # Without click's own handling, since it knows neither our errors nor our exit codes.
        outcome: object = berth.main(
            None if arguments is None else list(arguments),
            prog_name="berth",
            standalone_mode=False,
            obj=session,
        )
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        _say("interrupted")
        return _INTERRUPTED
    except BerthError as error:
        if session.debug:
            traceback.print_exc()
        _say(str(error))
        return exit_code_of(error)
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback for users
        if session.debug:
            traceback.print_exc()
        _say(
            f"this is a fault in Berth: {type(error).__name__}: {error}; run `berth --debug ...` "
            "again and report what it prints"
        )
        return ExitCode.FAILED
    return outcome if isinstance(outcome, int) else ExitCode.OK


def _say(message: str) -> None:
    print(f"berth: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
