"""Flavors, groups, quotas, aggregates, services, hosts and capacity, with a simulated cloud."""

import json

import pytest

from tests.unit.cli.cloud import Cloud
from tests.unit.cli.conftest import Run

QUOTAS = (
    "instances",
    "cores",
    "ram",
    "server_groups",
    "server_group_members",
    "key_pairs",
    "metadata_items",
)
SMALL = ("flavor", "create", "small", "--vcpus", "2", "--memory-mb", "2048")


def test_a_flavor_is_created_with_its_properties(run: Run, cloud: Cloud) -> None:
    """Sizes are sent under the compute API's names, and extra specs in a second request."""
    words = ["--disk-gb", 10, "--swap-mb", 5, "--private", "--property", "a=1", "--property", "a=2"]
    ended = run(*SMALL, *words, "--id", "f1", "--description", "d", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == {
        "id": "f1",
        "name": "small",
        "vcpus": 2,
        "ram": 2048,
        "disk": 10,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "swap": 5,
        "os-flavor-access:is_public": False,
        "description": "d",
        "extra_specs": {"a": "2"},
    }


def test_flavors_are_listed_shown_changed_and_deleted(run: Run, cloud: Cloud) -> None:
    """A flavor is named by its id or its name."""
    assert "no flavors" in run("flavor", "list").out
    run(*SMALL)
    assert "small" in run("flavor", "list").out
    assert json.loads(run("flavor", "list", "--json").out)["flavors"][0]["name"] == "small"
    assert "id-small" in run("flavor", "show", "small").out
    assert "b=c" in run("flavor", "set", "small", "--property", "b=c").out
    assert "b=c" not in run("flavor", "set", "id-small", "--unset", "b").out
    assert run("flavor", "set", "small").code == 2
    assert run("flavor", "delete", "small").code == 0
    assert run("flavor", "show", "small").code == 4


def test_a_name_that_needs_quoting_stays_one_name(run: Run, cloud: Cloud) -> None:
    """A slash in a name is quoted in the URL."""
    assert run("flavor", "show", "../servers/detail").code == 4
    assert cloud.asked[0].url.raw_path == b"/v2.1/flavors/..%2Fservers%2Fdetail"


def test_groups(run: Run, cloud: Cloud) -> None:
    """Rules are sent with the policy, and a group is found by its uuid or its name."""
    words = ["group", "create", "g", "--policy", "anti-affinity", "--max-per-host", 2]
    made = json.loads(run(*words, "--json").out)
    assert cloud.body()["server_group"]["rules"] == {"max_server_per_host": 2}
    assert run("group", "create", "g", "--policy", "near").code == 2
    assert "anti-affinity" in run("group", "list").out
    assert run("group", "show", made["id"]).code == 0
    assert "anti-affinity" in run("group", "show", "g").out
    run("group", "create", "g", "--policy", "affinity")
    assert run("group", "show", "g").code == 2
    assert run("group", "delete", made["id"]).code == 0
    assert run("group", "delete", "g").code == 0
    assert run("group", "delete", "g").code == 4
    assert "no server groups" in run("group", "list").out


def test_quotas(run: Run, cloud: Cloud) -> None:
    """Quotas are those of a project or the defaults, and -1 is shown as none."""
    sets, classes = "/v2.1/os-quota-sets/web", "/v2.1/os-quota-class-sets/default"
    limits = dict.fromkeys(QUOTAS, 3) | {"ram": -1}
    usages = {name: {"limit": limit, "in_use": 2} for name, limit in limits.items()}
    cloud.fixed[("GET", f"{sets}/detail")] = (200, {"quota_set": usages})
    cloud.fixed[("GET", classes)] = (200, {"quota_class_set": limits})
    cloud.fixed[("PUT", sets)] = (200, {"quota_set": limits})
    cloud.fixed[("PUT", classes)] = (200, {"quota_class_set": limits})
    cloud.fixed[("DELETE", sets)] = (202, {})
    rows = [line.split() for line in run("quota", "show", "web").out.splitlines()]
    assert ["cores", "3", "2"] in rows
    assert ["ram", "none", "2"] in rows
    assert json.loads(run("quota", "show", "web", "--json").out)["ram"]["in_use"] == 2
    assert json.loads(run("quota", "show", "--json").out) == limits
    assert "none" in run("quota", "set", "web", "--cores", 3, "--force").out
    assert cloud.body() == {"quota_set": {"cores": 3, "force": True}}
    assert json.loads(run("quota", "set", "--ram", -1, "--json").out) == limits
    assert cloud.body() == {"quota_class_set": {"ram": -1}}
    assert run("quota", "set", "web").code == 2
    assert run("quota", "unset", "web").code == 0
    assert cloud.last.method == "DELETE"


def test_aggregates(run: Run, cloud: Cloud) -> None:
    """An aggregate is found by its id or its name, and adding a host twice is a conflict."""
    assert run("aggregate", "create", "racks", "--az", "az1").code == 0
    assert "az1" in run("aggregate", "list").out
    assert "h1" in run("aggregate", "add-host", "racks", "h1").out
    ended = run("aggregate", "add-host", "1", "h1")
    assert ended.code == 6
    assert "there already" in ended.err
    assert run("aggregate", "set", "1").code == 2
    ended = run("aggregate", "set", "1", "--name", "n", "--property", "a=b", "--unset", "c")
    assert ended.code == 0
    assert cloud.body() == {"set_metadata": {"metadata": {"a": "b", "c": None}}}
    assert json.loads(run("aggregate", "show", "n", "--json").out)["metadata"]["a"] == "b"
    assert run("aggregate", "remove-host", "n", "h1").code == 0
    assert "X-Berth-Force" not in cloud.last.headers
    for words in (["set", "n", "--az", "az2"], ["add-host", "n", "h1"], ["remove-host", "n", "h1"]):
        assert run("aggregate", *words, "--force").code == 0
        assert cloud.last.headers["X-Berth-Force"] == "true"
    assert run("aggregate", "delete", "n").code == 0
    assert run("aggregate", "delete", "n").code == 4
    assert "no aggregates" in run("aggregate", "list").out


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["enable", "h1"], {"status": "enabled"}),
        (["disable", "h1"], {"status": "disabled"}),
        (["disable", "h1", "--reason", "r"], {"status": "disabled", "disabled_reason": "r"}),
        (["force-down", "h1"], {"forced_down": True}),
        (["force-down", "h1", "--unset"], {"forced_down": False}),
    ],
)
def test_services(run: Run, cloud: Cloud, words: list[str], body: dict[str, object]) -> None:
    """A service is found by its host."""
    cloud.add_service("h2")
    made = cloud.add_service("h1")
    ended = run("service", *words)
    assert ended.code == 0
    assert "h1" in ended.out
    assert cloud.body() == body
    assert cloud.last.url.path.endswith(made["id"])


def test_a_service_is_deleted_by_its_host(run: Run, cloud: Cloud) -> None:
    """The command finds the id of the service, and other services stay."""
    cloud.add_service("h2")
    made = cloud.add_service("h1")
    assert run("service", "delete", "h1").code == 0
    assert (cloud.last.method, cloud.last.url.path) == ("DELETE", f"/v2.1/os-services/{made['id']}")
    assert [one["host"] for one in cloud.services.values()] == ["h2"]


def test_a_host_without_a_service_ends_with_4(run: Run, cloud: Cloud) -> None:
    """An unknown host ends with 4, and the list can be filtered by host."""
    assert run("service", "list").out == "no services\n"
    assert run("service", "disable", "h1").code == 4
    assert run("service", "delete", "h1").code == 4
    cloud.add_service("h1")
    assert "h1" in run("service", "list", "--host", "h1").out
    assert cloud.last.url.params["host"] == "h1"


HOST = {
    "uuid": "u",
    "name": "h1",
    "node": "h1",
    "zones": ["az1"],
    "num_instances": 3,
    "traits": ["T"],
    "inventories": {"VCPU": {"used": 5, "capacity": 1600}},
    "service": {"disabled": False, "disabled_reason": None, "is_up": True},
}


@pytest.mark.parametrize(
    ("service", "state"),
    [
        (HOST["service"], "up"),
        ({"disabled": False, "is_up": False}, "down"),
        ({"disabled": False, "is_up": False, "is_uncertain": False}, "down"),
        ({"disabled": False, "is_up": False, "is_uncertain": True}, "uncertain"),
        ({"disabled": True, "disabled_reason": "hot", "is_up": True}, "disabled (hot)"),
        ({"disabled": True, "disabled_reason": None, "is_up": True}, "disabled"),
        (None, "no service"),
    ],
)
def test_hosts_are_listed_and_shown_with_their_use(
    run: Run, cloud: Cloud, service: object, state: str
) -> None:
    """Hosts are shown with their usage, zones and service state."""
    host = HOST | {"service": service}
    other = {"name": "h2", "inventories": {"GPU": {"used": 0, "capacity": 1}}}
    cloud.fixed["GET", "/berth/v1/hosts"] = (200, {"hosts": [host, other]})
    cloud.fixed["GET", "/berth/v1/hosts/h1"] = (200, host)
    for words in (["list"], ["show", "h1"]):
        out = run("host", *words).out
        assert "5 of 1,600" in out
        assert state in out
        assert "az1" in out
    assert json.loads(run("host", "list", "--json").out)["hosts"] == [host, other]
    assert json.loads(run("host", "show", "h1", "--json").out) == host


def test_a_host_is_shown_with_its_child_providers(run: Run, cloud: Cloud) -> None:
    """Each child provider is shown with its usage and traits."""
    child = {
        "uuid": "child-uuid",
        "name": "GPU 0",
        "parent_uuid": "u",
        "inventories": {"CUSTOM_GPU_MILLI": {"used": 300, "capacity": 1000}},
        "traits": ["CUSTOM_A100"],
    }
    host = HOST | {"inventories": {}, "children": [child]}
    cloud.fixed["GET", "/berth/v1/hosts/h1"] = (200, host)
    out = run("host", "show", "h1").out
    for said in ("GPU 0", "child-uuid", "CUSTOM_GPU_MILLI 300 of 1,000", "CUSTOM_A100"):
        assert said in out


def test_hosts_as_the_compute_api_tells_them(run: Run, cloud: Cloud) -> None:
    """With `--hypervisors`, the list comes from the compute API."""
    one = {"id": "u", "hypervisor_hostname": "h1", "state": "up", "status": "enabled"}
    cloud.fixed["GET", "/v2.1/os-hypervisors/detail"] = (200, {"hypervisors": [one]})
    assert "h1" in run("host", "list", "--hypervisors").out
    out = run("host", "list", "--hypervisors", "--json").out
    assert json.loads(out) == {"hypervisors": [one]}


def test_an_empty_fleet_says_what_to_do(run: Run, cloud: Cloud) -> None:
    """Without hosts, the output names the command to start an agent."""
    cloud.fixed["GET", "/berth/v1/hosts"] = (200, {"hosts": []})
    assert "berth agent" in run("host", "list").out


def test_capacity_is_asked_by_the_flavors_id(run: Run, cloud: Cloud) -> None:
    """The hosts with the most room are listed, and the others are counted."""
    cloud.add_flavor("small")
    hosts = [{"host": f"h{number}", "node": "n", "count": 9 - number} for number in range(2)]
    answer = {"total": 1234, "hosts_total": 5, "hosts": hosts}
    cloud.fixed["GET", "/berth/v1/capacity"] = (200, answer)
    ended = run("capacity", "--flavor", "small", "--az", "az1", "--hosts", 2)
    assert "1,234 more instances of small fit on 5 hosts" in ended.out
    assert "and 3 more hosts" in ended.out
    assert dict(cloud.last.url.params) == {
        "flavor": "id-small",
        "availability_zone": "az1",
        "limit": "2",
    }
    assert json.loads(run("capacity", "--flavor", "small", "--json").out) == answer
    cloud.fixed["GET", "/berth/v1/capacity"] = (200, {"total": 0, "hosts_total": 0})
    assert "0 more instances of small fit" in run("capacity", "--flavor", "small").out
    # Tenants get the total only.
    for total, fit in ((7, "7 more instances of small fit"), (1, "1 more instance of small fits")):
        cloud.fixed["GET", "/berth/v1/capacity"] = (200, {"total": total})
        assert run("capacity", "--flavor", "small").out == f"{fit}\n"


def test_capacity_says_which_zones_are_not_counted(run: Run, cloud: Cloud) -> None:
    """A partial answer is a lower bound; each child zone has a line."""
    cloud.add_flavor("small")
    zones = [
        {"zone": "west", "count": 5, "is_partial": False},
        {"zone": "east", "count": 4, "is_partial": True},
        {"zone": "far", "count": None, "is_partial": True},
    ]
    hosts = [{"host": "h1", "node": "n", "count": 1000}]
    answer = {"total": 2009, "is_partial": True, "hosts_total": 3, "hosts": hosts, "zones": zones}
    cloud.fixed["GET", "/berth/v1/capacity"] = (200, answer)
    out = run("capacity", "--flavor", "small").out
    # This zone's hosts have room for 2,000, of which the list shows the first host.
    assert out.startswith(
        "At least 2,009 more instances of small fit, 2,000 of them on 3 hosts of this zone\n"
    )
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert [line for line in lines if line[:1] and line[0] in {"west", "east", "far"}] == [
        ["west", "5"],
        ["east", "at least 4"],
        ["far", "no answer"],
    ]


def test_candidates_are_explained_step_by_step(run: Run, cloud: Cloud) -> None:
    """The query is sent unchanged, and the step that leaves no candidates is named."""
    all_, none = {"providers": 1200, "trees": 3}, {"providers": 0, "trees": 0}
    room = {"group": "_A", "constraint": "room", "names": ["VCPU"], "before": all_, "after": none}
    whole: dict[str, object] = {
        "group": None,
        "constraint": "combination",
        "names": [],
        "before": all_,
        "after": all_,
    }
    answer = {"fleet": all_, "steps": [room, whole], "ends_at": 0}
    cloud.fixed["GET", "/berth/v1/candidates/explain"] = (200, answer)
    query = "resources_A=VCPU:1&required_A=in:CUSTOM_A,CUSTOM_B&required_A=CUSTOM_C"
    ended = run("candidates", "explain", query)
    assert cloud.last.url.query.decode() == query
    assert "1,200 providers in 3 trees" in ended.out
    assert "1,200 to 0" in ended.out
    assert "no candidates: no tree is left after room (VCPU) of _A" in ended.out
    assert json.loads(run("candidates", "explain", f"?{query}", "--json").out) == answer
    answer["ends_at"] = None
    assert "there are candidates in 3 trees" in run("candidates", "explain", query).out
