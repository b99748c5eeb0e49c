"""Names that do not exist: the error suggests the nearest one that does."""

import pytest

from tests.unit.cli.cloud import UUID, Cloud
from tests.unit.cli.conftest import Run

HOSTS = {"services": [{"id": "1", "host": "rack1-01"}, {"id": "2", "host": "rack1-02"}]}


@pytest.fixture
def stocked(cloud: Cloud) -> Cloud:
    """Return a cloud with one of each thing, and two hosts."""
    cloud.add_server("database")
    cloud.add_flavor("m1.small")
    cloud.images["1"] = {"id": "1", "name": "debian-12"}
    cloud.groups["1"] = {"id": UUID.format(1), "name": "replicas"}
    cloud.aggregates["1"] = {"id": 1, "name": "ssd-hosts"}
    cloud.fixed["GET", "/zones/detail"] = (200, {"zones": [{"id": 1, "name": "west"}]})
    cloud.fixed["GET", "/v2.1/os-services"] = (200, HOSTS)
    return cloud


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("server", "show", "databse"), "database"),
        (("server", "start", "databse"), "database"),
        (("server", "resize", "database", "--flavor", "m1.smal"), "m1.small"),
        (("flavor", "show", "m1.smal"), "m1.small"),
        (("image", "show", "debain-12"), "debian-12"),
        (("group", "show", "replica"), "replicas"),
        (("aggregate", "show", "sd-hosts"), "ssd-hosts"),
        (("zone", "show", "wets"), "west"),
        (("service", "enable", "rack1-1"), "rack1-01"),
        (("host", "evacuate", "rack1-1"), "rack1-01"),
        (("host", "show", "rack1-1"), "rack1-01"),
        (("host", "set", "rack1-1", "--ratio", "VCPU=2"), "rack1-01"),
        (("host", "drain", "rack1-1"), "rack1-01"),
        (("host", "maintain", "rack1-1"), "rack1-01"),
        (("host", "resume", "rack1-1"), "rack1-01"),
        (("host", "maintenance", "rack1-1"), "rack1-01"),
        (("host", "write-off", "rack1-1"), "rack1-01"),
        (("host", "rotate-key", "rack1-1"), "rack1-01"),
        (("host", "revoke-key", "rack1-1"), "rack1-01"),
    ],
)
def test_a_misspelt_name_is_corrected(
    run: Run, stocked: Cloud, words: tuple[str, ...], near: str
) -> None:
    """The error has the exit code of a missing thing, and nothing is changed."""
    ended = run(*words)
    assert ended.code == 4
    assert f"did you mean {near!r}?" in ended.err
    assert ended.out == ""


@pytest.mark.parametrize(
    ("words", "see"),
    [
        (("server", "show", "xyz"), "in your project; see `berth server list`"),
        (("flavor", "show", "qqq"), "berth flavor list"),
        (("service", "enable", "qqq"), "berth service list"),
    ],
)
def test_a_name_that_resembles_none_gets_the_list(
    run: Run, stocked: Cloud, words: tuple[str, ...], see: str
) -> None:
    """The error names the command that lists what there is."""
    ended = run(*words)
    assert ended.code == 4
    assert see in ended.err


def test_another_reason_than_the_host_is_left_alone(run: Run, stocked: Cloud) -> None:
    """A host that exists, or whose list fails, gets the error of the service alone."""
    assert "did you mean" not in run("host", "maintenance", "rack1-01").err
    stocked.fixed["GET", "/v2.1/os-services"] = (403, {"forbidden": {"message": "no"}})
    ended = run("host", "show", "rack1-1")
    assert ended.code == 4
    assert "did you mean" not in ended.err
