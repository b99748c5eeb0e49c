"""`berth audit-log`: list, show, export and verify."""

import json
from pathlib import Path

import msgspec
import pytest

from berth.domain.ledger.audit_trail import NO_ENTRIES, AuditEntry, chain
from tests.unit.cli.cloud import Cloud
from tests.unit.cli.conftest import Run

PATH = "/berth/v1/audit-log"
Json = dict[str, object]


def entries() -> list[Json]:
    """Return three entries as the API shows them, oldest first."""
    made = [
        AuditEntry(
            1_800_000_000_000 + number,
            "POST /v2.1/servers/{server_id}/action",
            user_id="ann\33[2J",
            status=202,
            targets={"server_id": f"s{number}"},
            details={"action": "os-stop"},
        )
        for number in range(3)
    ]
    return [
        {**msgspec.to_builtins(one.entry), "number": one.number, "previous": one.previous}
        | {"hash": one.hash}
        for one in chain(NO_ENTRIES, made).chained()
    ]


def serve(cloud: Cloud, found: list[Json]) -> None:
    """Let the cloud answer with one page."""
    page: Json = {"entries": found, "marker": None, "head": {}}
    cloud.fixed["GET", PATH] = (200, page)


def test_the_list_says_who_did_what(run: Run, cloud: Cloud) -> None:
    """A line has number, time, user, operation, targets and status; conditions are sent."""
    serve(cloud, entries()[::-1])
    ended = run(
        "audit-log", "list", "--by", "ann", "--since", "2027-01-15T09:00+01:00", "--limit", 2
    )
    assert ended.code == 0
    first = ended.out.splitlines()[1]
    assert "2027-01-15T08:00:00Z" in first
    assert "os-stop server_id=s2" in first
    assert len(ended.out.splitlines()) == 3
    assert "\33" not in ended.out
    asked = cloud.last.url.params
    assert dict(asked) == {"user_id": "ann", "since_ms": "1800000000000", "limit": "2"}


def test_one_entry_is_shown(run: Run, cloud: Cloud) -> None:
    """An entry is shown with all fields."""
    cloud.fixed["GET", f"{PATH}/2"] = (200, entries()[1])
    ended = run("audit-log", "show", 2)
    assert ended.code == 0
    assert "action=os-stop" in ended.out
    assert run("audit-log", "show", 3).code == 4


def test_an_export_is_verified_without_a_service(run: Run, cloud: Cloud, tmp_path: Path) -> None:
    """An export has a line for each entry, is private, and can be verified offline."""
    serve(cloud, entries())
    path = tmp_path / "audit.jsonl"
    assert run("audit-log", "export", "--output", path).code == 0
    assert path.stat().st_mode & 0o077 == 0
    lines = path.read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2, 3]
    asked = len(cloud.asked)
    ended = run("audit-log", "verify", "--file", path)
    assert (ended.code, len(cloud.asked)) == (0, asked)
    path.write_text("\n".join([lines[0], lines[2]]))
    ended = run("audit-log", "verify", "--file", path)
    assert ended.code == 1
    assert "entry 3: the entries 2 before it are missing" in ended.out


def test_an_export_goes_to_a_pipe(run: Run, cloud: Cloud) -> None:
    """Without --output, the lines go to standard output."""
    serve(cloud, entries())
    ended = run("audit-log", "export")
    assert len(ended.out.splitlines()) == 3


def test_verify_prints_the_head(run: Run, cloud: Cloud) -> None:
    """The head is printed, and accepted when it is given later."""
    found = entries()
    serve(cloud, found)
    ended = run("audit-log", "verify")
    head = f"3:{found[2]['hash']}"
    assert (ended.code, ended.out) == (0, f"verified 3 entries, head {head}\n")
    assert run("audit-log", "verify", "--head", head).code == 0


def test_verify_computes_the_hashes_itself(run: Run, cloud: Cloud) -> None:
    """An altered entry and a cut end are found, whatever the service says."""
    found = entries()
    head = f"3:{found[2]['hash']}"
    serve(cloud, found[:2])
    ended = run("audit-log", "verify", "--head", head, "--json")
    assert ended.code == 1
    [fault] = json.loads(ended.out)["faults"]
    assert fault["number"] == 3
    found[1]["user_id"] = "bob"
    serve(cloud, found)
    ended = run("audit-log", "verify")
    assert ended.code == 1
    assert "entry 2: its content does not have its hash" in ended.out


def test_fields_of_a_newer_service_are_verified_too(run: Run, cloud: Cloud) -> None:
    """An empty field that this client does not know changes nothing; a filled one is altered."""
    found = [{**one, "later": ""} for one in entries()]
    serve(cloud, found)
    assert run("audit-log", "verify").code == 0
    found[0]["later"] = "x"
    assert run("audit-log", "verify").code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "--head", "3"),
        ("verify", "--head", "3:abc"),
        ("list", "--since", "yesterday"),
    ],
)
def test_wrong_values_are_refused(run: Run, words: tuple[str, ...]) -> None:
    """Malformed heads and times are mistakes in the command line."""
    assert run("audit-log", *words).code == 2


def test_a_file_that_is_no_export_is_refused(run: Run, tmp_path: Path) -> None:
    """The error names the line."""
    path = tmp_path / "x"
    path.write_text("{}\n")
    ended = run("audit-log", "verify", "--file", path)
    assert ended.code == 2
    assert "line 1" in ended.err
