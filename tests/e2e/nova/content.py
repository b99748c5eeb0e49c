"""Random content for a Nova: flavors, aggregates, groups, keys, quotas, servers in all states."""

from random import Random
from typing import Final

from tests.e2e.nova.rig import HOSTS, Cloud, Json

_IMAGE: Final = "155d900f-4e14-4e4c-a73d-069cbf4541e6"
_KEY: Final = (
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQCxVYsnCQ2/9fKDBaqO7H7zgN4ILIQYKpYAe5k1BW8kBqHJrhfNSjKk6n"
    "tdMqJDgUCLVAC7sM0BsMVTJqg+pGFFIBT6HCZ6AW3MZD+9k5bRUsGnMpCg/MGSC5YiBNzVqMhZZyi+lxVy0Rbqqmm9HNGb"
    "XlHYO9g9BK6hlGBLAPBfNQ== user"
)
_ACTIONS: Final[tuple[Json, ...]] = (
    {"os-stop": None},
    {"pause": None},
    {"suspend": None},
    {"lock": {"locked_reason": "in use"}},
    {"shelve": None},
    {"os-resetState": {"state": "error"}},
)
_POLICIES: Final = ("anti-affinity", "soft-affinity", "soft-anti-affinity")


def fill(cloud: Cloud, random: Random, *, servers: int) -> None:
    """Create random content in an empty cloud, and wait until Nova has done everything."""
    flavors = _flavors(cloud, random)
    _aggregates(cloud, random)
    groups = [_group(cloud, policy, random) for policy in _POLICIES]
    cores = random.randint(30, 60)
    cloud.call("PUT", "/os-quota-sets/p1", {"quota_set": {"cores": cores, "instances": 50}})
    cloud.call("POST", "/os-keypairs", {"keypair": {"name": "key", "public_key": _KEY}}, "u1:p1")
    for number in range(servers):
        _server(cloud, random, number, random.choice(flavors), groups)
    running = [one for one in cloud.settle() if one["status"] == "ACTIVE"]
    assert len(running) >= len(_ACTIONS), f"too few servers run: {cloud.servers()}"
    random.shuffle(running)
    for one, action in zip(running, _ACTIONS, strict=False):
        cloud.call("POST", f"/servers/{one['id']}/action", action)
    cloud.settle()
    services = cloud.call("GET", "/os-services?binary=nova-compute")["services"]
    number = random.choice(services)["id"]
    reason = {"status": "disabled", "disabled_reason": "a new disk"}
    cloud.call("PUT", f"/os-services/{number}", reason)


def _flavors(cloud: Cloud, random: Random) -> list[str]:
    """Create flavors that are public or p1's, with and without extra specs; return their ids."""
    ids = [f"f{number}" for number in range(3)]
    for number, flavor_id in enumerate(ids):
        flavor = {
            "id": flavor_id,
            "name": f"small-{number}",
            "vcpus": 1,
            "ram": random.choice([128, 256]),
            "disk": random.randint(1, 3),
            "swap": random.choice([0, 64]),
            "os-flavor-access:is_public": number != 1,
            "description": random.choice([None, "a flavor"]),
        }
        cloud.call("POST", "/flavors", {"flavor": flavor})
    cloud.call("POST", "/flavors/f1/action", {"addTenantAccess": {"tenant": "p1"}})
    specs = {"extra_specs": {"hw:cpu_policy": "shared", "quota:cpu_shares": "10"}}
    cloud.call("POST", "/flavors/f2/os-extra_specs", specs)
    return ids


def _aggregates(cloud: Cloud, random: Random) -> None:
    """Create two availability zones that have all hosts."""
    hosts = random.sample(HOSTS, len(HOSTS))
    for zone, members in (("az1", hosts[:1]), ("az2", hosts[1:])):
        made = cloud.call(
            "POST", "/os-aggregates", {"aggregate": {"name": zone, "availability_zone": zone}}
        )
        path = f"/os-aggregates/{made['aggregate']['id']}/action"
        for host in members:
            cloud.call("POST", path, {"add_host": {"host": host}})
        metadata = {"ssd": random.choice(["true", "false"])}
        cloud.call("POST", path, {"set_metadata": {"metadata": metadata}})


def _group(cloud: Cloud, policy: str, random: Random) -> str:
    group: Json = {"name": policy, "policy": policy}
    if policy == "anti-affinity":
        group["rules"] = {"max_server_per_host": random.randint(2, 3)}
    made = cloud.call("POST", "/os-server-groups", {"server_group": group}, "admin:p1")
    return str(made["server_group"]["id"])


def _server(cloud: Cloud, random: Random, number: int, flavor: str, groups: list[str]) -> None:
    server: Json = {
        "name": f"vm-{number}",
        "flavorRef": flavor,
        "imageRef": _IMAGE,
        "networks": "none",
        "metadata": {"number": str(number)},
        "tags": random.sample(["red", "green", "blue"], 2),
        "description": random.choice([None, "a server"]),
    }
    if random.random() < 0.3:
        server["availability_zone"] = random.choice(["az1", "az2"])
    if random.random() < 0.3:
        server |= {"key_name": "key", "user_data": "aGVsbG8=", "config_drive": True}
    hints = {"group": random.choice(groups)} if number % 3 == 0 else {}
    body = {"server": server, "os:scheduler_hints": hints}
    user = "u1:p1" if "key_name" in server else random.choice(["admin:p1", "u1:p1", "u2:p2"])
    # A private flavor and a group belong to p1.
    if flavor == "f1" or hints:
        user = "u1:p1"
    cloud.call("POST", "/servers", body, user)
