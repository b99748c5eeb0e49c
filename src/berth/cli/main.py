"""The `berth` command: the table of commands, and the conversion of errors to exit codes."""

import sys
import traceback
from collections.abc import Mapping, Sequence
from io import TextIOWrapper

import click

from berth import __version__
from berth.cli.command import Session
from berth.cli.failures import ExitCode, exit_code_of
from berth.cli.lazy import LazyCommand, LazyGroup
from berth.domain.errors import BerthError
from berth.domain.url_redaction import redact_accounts

_CLOUD = "Use a running Berth"
_FILES = "Decide offline"
_RUN = "Run Berth"

COMMANDS: Mapping[str, LazyCommand] = {
    "server": LazyCommand("servers:servers", "Create, show, move and delete servers.", _CLOUD),
    "flavor": LazyCommand("flavors:flavors", "Manage flavors.", _CLOUD),
    "image": LazyCommand("images:images", "Show images, and delete images of servers.", _CLOUD),
    "group": LazyCommand("server_groups:groups", "Manage server groups.", _CLOUD),
    "quota": LazyCommand("quotas:quotas", "Show and set quotas of projects.", _CLOUD),
    "aggregate": LazyCommand("aggregates:aggregates", "Manage host aggregates.", _CLOUD),
    "host": LazyCommand("hosts:hosts", "List, show, drain and evacuate hosts.", _CLOUD),
    "migration": LazyCommand("migrations:migrations", "List migrations of servers.", _CLOUD),
    "service": LazyCommand(
        "services:services", "List, enable and disable compute services.", _CLOUD
    ),
    "top": LazyCommand("top:top", "Show the load of the fleet, live.", _CLOUD),
    "zone": LazyCommand("zones:zones", "Manage child zones, and keys between zones.", _CLOUD),
    "explain": LazyCommand("decisions:explain", "Explain a decision.", _CLOUD),
    "capacity": LazyCommand(
        "capacity:capacity", "Count how many more instances of a flavor would fit.", _CLOUD
    ),
    "context": LazyCommand(
        "contexts:contexts", "Name addresses and accounts, and choose one.", _CLOUD
    ),
    "completion": LazyCommand(
        "completion:completion", "Print the script that completes commands in a shell.", _CLOUD
    ),
    "candidates": LazyCommand("candidates:candidates", "Explain allocation candidates.", _CLOUD),
    "audit": LazyCommand(
        "audit:audit",
        "Find and repair lost capacity and other discrepancies.",
        _CLOUD,
    ),
    "audit-log": LazyCommand(
        "audit_log:audit_log", "Show, export and verify who changed what.", _CLOUD
    ),
    "state": LazyCommand("state:state", "Export the state of the fleet.", _CLOUD),
    "policy": LazyCommand("policy:policy", "Show, check and reload the policy.", _CLOUD),
    "decide": LazyCommand(
        "decide:decide", "Decide on a request file and explain every step.", _FILES
    ),
    "up": LazyCommand("serving:up", "Run everything in one process.", _RUN),
    "api": LazyCommand("serving:api", "Run the HTTP API.", _RUN),
    "placement": LazyCommand("serving:placement", "Run only the Placement API.", _RUN),
    "scheduler": LazyCommand("serving:scheduler", "Run a scheduler.", _RUN),
    "agent": LazyCommand("serving:agent", "Run the agent of a compute host.", _RUN),
    "agent-enroll": LazyCommand(
        "host_keys:agent_enroll", "Enroll this compute host with a token.", _RUN
    ),
    "control-keys": LazyCommand(
        "host_keys:control_keys", "Manage the keys of the control plane.", _RUN
    ),
    "config": LazyCommand("config:config", "Check and show settings.", _RUN),
    "doctor": LazyCommand("doctor:doctor", "Examine this installation.", _RUN),
    "ledger": LazyCommand("serving:ledger", "Manage the ledger's schema.", _RUN),
    "db": LazyCommand("serving:db", "Upgrade the ledger.", _RUN),
    "log": LazyCommand("log:log", "Show all log lines of one request.", _RUN),
    "import": LazyCommand("nova_import:import_", "Take over what Nova knows, and verify it.", _RUN),
    "user": LazyCommand("users:users", "Manage users with passwords.", _RUN),
    "token-keys": LazyCommand("users:token_keys", "Manage the keys that seal tokens.", _RUN),
    "bus-keys": LazyCommand(
        "bus_keys:bus_keys", "Manage the keys that sign messages on the broker.", _RUN
    ),
    "replay": LazyCommand("lab:replay", "Replay a workload against a running Berth.", "Try it out"),
    "demo": LazyCommand("lab:demo", "Run a demonstration.", "Try it out"),
    "demo-zones": LazyCommand("lab:demo_zones", "Run a demonstration of zones.", "Try it out"),
}

# The exit code after Ctrl-C, by the convention of shells: 128 plus the number of SIGINT.
_INTERRUPTED = 130


def _say_version(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click calls it
    # Shell completion parses the command line, and nothing may be printed then.
    if not value or context.resilient_parsing:
        return
    # Imported lazily: NumPy takes longer to load than most commands take to run.
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
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Print the version, and whether the compiled kernel is in use.",
)
def berth() -> None:
    """Berth decides which host each instance runs on.

    Commands that use a running Berth connect to the address in --url or BERTH_URL. The options may
    stand before or after the name of a command.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    session = Session()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal without Unicode gets question marks instead of an encoding error.
            stream.reconfigure(errors="replace")
    try:
        # click's standalone mode would end the process itself, and knows neither Berth's errors
        # nor its exit codes.
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
    except Exception as error:  # noqa: BLE001 - users must not see a traceback
        if session.debug:
            traceback.print_exc()
        _say(
            f"this is a bug in Berth ({type(error).__name__}: {redact_accounts(str(error))}); run "
            "the command again with `berth --debug` and report the output"
        )
        return ExitCode.FAILED
    # Without standalone mode click returns the code of an exit or, without one, the value that the
    # command returned.
    return outcome if isinstance(outcome, int) else ExitCode.OK


def _say(message: str) -> None:
    print(f"berth: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
