"""The commands of the guide to services, from certificates on, executed in an empty folder.

Nothing of this machine is used but its database server, its broker and its programs: paths, names
and addresses of the guide are replaced by private ones, and `systemctl` starts the units' commands.
"""

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from berth.lab import loopback
from tests.documents import Step, missing_lines, run_steps, steps_of

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.rabbitmq,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("psql", "rabbitmqctl", "openssl", "curl"))),
        reason="the guide needs root, psql, rabbitmqctl, openssl and curl",
    ),
]

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "operate.md"
SECTIONS = ("### HTTPS", "### As services", "## Quotas", "## Audit log")
"""The sections whose commands are executed, in this order."""
_HOST = "127.0.0.1"
_POSTGRES = os.environ.get(
    "BERTH_TEST_POSTGRES_URL", f"postgresql://postgres@{_HOST}:5432/postgres"
)
# What systemd does with a unit, as far as the guide needs it: start its command with its variables.
_SYSTEMCTL = """#!/bin/sh
set -e
[ "$1 $2" = "enable --now" ]
shift 2
for name in "$@"; do
    unit="$UNITS/$name.service"
    file=$(sed -n 's/^EnvironmentFile=//p' "$unit")
    [ -z "$file" ] || { set -a; . "$file"; set +a; }
    command=$(sed -n "s/--driver qemu/--driver fake/; s/%H/$(uname -n)/; s/^ExecStart=//p" "$unit")
    $command > "$name.log" 2>&1 < /dev/null &
    echo $! >> pids
    [ -z "$file" ] || unset BERTH_LEDGER_URL BERTH_BUS_URL
done
"""
_RUNUSER = '#!/bin/sh\nshift 3\nexec "$@"\n'
_BERTH = f'#!/bin/sh\nexec {sys.executable} -m berth.cli.main "$@"\n'


def section(markdown: str, heading: str) -> str:
    """Return a section of a page, up to the next heading of the same or a higher level."""
    level = heading.partition(" ")[0]
    _, _, rest = markdown.partition(f"\n{heading}\n")
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


@dataclass(frozen=True)
class Place:
    """A folder in place of the machine's folders, and private names in place of the guide's."""

    folder: Path
    name: str
    port: int

    @property
    def replacements(self) -> Mapping[str, str]:
        """What the guide says, and what the test says instead, in the order of replacement."""
        server = urlsplit(_POSTGRES)
        return {
            "/etc/systemd/system": f"{self.folder}/units",
            "/etc/berth": f"{self.folder}/etc",
            "/var/lib/berth": f"{self.folder}/lib",
            "/opt/berth/bin": f"{self.folder}/bin",
            # The test is one user on one machine.
            " -g berth ": " ",
            " -o berth ": " ",
            "chgrp berth": "chgrp root",
            "control.example:8774": f"localhost:{self.port}",
            "control.example": "localhost",
            "IP:10.0.0.5": f"IP:{_HOST}",
            "0.0.0.0:8774": f"{_HOST}:{self.port}",
            # The names of the role, the database and the virtual host.
            "ROLE berth": f"ROLE {self.name}",
            "DATABASE berth OWNER berth": f"DATABASE {self.name} OWNER {self.name}",
            "berth:PASSWORD@db.example/berth": (
                f"{self.name}:PASSWORD@{server.hostname}:{server.port or 5432}/{self.name}"
            ),
            "add_vhost berth": f"add_vhost {self.name}",
            "add_user berth": f"add_user {self.name}",
            "-p berth berth": f"-p {self.name} {self.name}",
            "amqps://berth:PASSWORD@broker.example:5671/berth": (
                f"amqp://{self.name}:PASSWORD@{_HOST}:5672/{self.name}"
            ),
            # A terminal asks for the password, and a person copies the token.
            "/etc/users admin": "/etc/users admin --password-stdin <<< PASSWORD",
            'berth host enroll "$(uname -n)"': (
                'export BERTH_ENROLL_TOKEN="$(berth host enroll "$(uname -n)")"'
            ),
        }

    def localized(self, text: str) -> str:
        """Return a text of the guide or of a file that it installs, with private names."""
        for said, meant in self.replacements.items():
            text = text.replace(said, meant)
        return text


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Yield a folder and names; stop the processes and remove role, database and virtual host."""
    found = Place(tmp_path, f"berth_guide_{secrets.token_hex(4)}", loopback.free_port())
    yield found
    if (tmp_path / "pids").exists():
        for pid in (tmp_path / "pids").read_text().split():
            subprocess.run(["kill", pid], check=False, capture_output=True)
            subprocess.run(["tail", f"--pid={pid}", "-f", "/dev/null"], check=False, timeout=60)
    for command in (
        ["psql", "-d", "postgres", "-c", f"DROP DATABASE IF EXISTS {found.name} WITH (FORCE)"],
        ["psql", "-d", "postgres", "-c", f"DROP ROLE IF EXISTS {found.name}"],
        ["rabbitmqctl", "delete_user", found.name],
        ["rabbitmqctl", "delete_vhost", found.name],
    ):
        subprocess.run(command, env=_environment(found), check=False, capture_output=True)


def _environment(place: Place) -> dict[str, str]:
    """Return the variables of the shell: the servers of the tests, and programs of the folder."""
    server = urlsplit(_POSTGRES)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("BERTH_")}
    return {
        **kept,
        "PATH": f"{place.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PGHOST": server.hostname or _HOST,
        "PGPORT": str(server.port or 5432),
        "PGUSER": server.username or "postgres",
        "PGPASSWORD": server.password or "",
        "UNITS": str(place.folder / "units"),
        "BERTH_PASSWORD": "PASSWORD",
        "no_proxy": "*",
    }


def _prepare(place: Place) -> None:
    """Create the folders of a machine, its programs, and the files that the guide installs."""
    for name in ("bin", "units", "lib", "etc"):
        (place.folder / name).mkdir()
    for name, text in {"systemctl": _SYSTEMCTL, "runuser": _RUNUSER, "berth": _BERTH}.items():
        (place.folder / "bin" / name).write_text(text)
        (place.folder / "bin" / name).chmod(0o755)
    shutil.copytree(ROOT / "deploy", place.folder / "deploy")
    files = [
        *(place.folder / "deploy").glob("*.toml"),
        *(place.folder / "deploy/systemd").iterdir(),
    ]
    for file in files:
        file.write_text(place.localized(file.read_text("utf-8")), "utf-8")


def guide_steps(place: Place) -> list[Step]:
    """Return the commands of the sections, with private names."""
    text = GUIDE.read_text("utf-8")
    steps = [step for heading in SECTIONS for step in steps_of(section(text, heading))]
    return [Step(place.localized(step.script), step.shown) for step in steps]


def test_the_services_guide_works_as_printed(place: Place) -> None:
    """From role, database and virtual host to a host that is up, no command of the guide fails."""
    _prepare(place)
    steps = guide_steps(place)
    scripts = "\n".join(step.script for step in steps)
    for word in ("CREATE ROLE", "add_vhost", "openssl req", "db upgrade", "systemctl", "enroll"):
        assert word in scripts
    assert re.findall(r"\s/(?:etc|opt|var/lib)/berth", scripts) == []
    try:
        outputs = run_steps(steps, place.folder, _environment(place), timeout_s=240.0)
    except AssertionError as error:
        logs = [f"{one.name}\n{one.read_text()[-2000:]}" for one in place.folder.glob("*.log")]
        raise AssertionError("\n".join([str(error), *logs])) from error
    (seen,) = [out for step, out in zip(steps, outputs, strict=True) if "host list" in step.script]
    assert shlex.split(seen)[:2] == [os.uname().nodename, "up"]
    assert [missing_lines(*pair) for pair in zip(steps, outputs, strict=True)] == [[]] * len(steps)


def test_every_replacement_is_of_something_in_the_guide_or_its_files(tmp_path: Path) -> None:
    """A replacement that nothing needs hides that the guide has changed."""
    files = [*(ROOT / "deploy").glob("*.toml"), *(ROOT / "deploy" / "systemd").iterdir(), GUIDE]
    text = "\n".join(file.read_text("utf-8") for file in files)
    place = Place(tmp_path, "name", 1)
    late = {"/etc/users admin"}  # this follows from an earlier replacement
    assert [said for said in place.replacements if said not in text and said not in late] == []
