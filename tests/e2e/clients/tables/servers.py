"""Servers and server groups, on a fleet that `fleet.py` has furnished."""

from tests.e2e.clients.expecting import (
    Command,
    lists,
    lists_row,
    refused,
    says,
    settling,
    shows,
    shows_fields,
    usual,
    with_tokens,
)

CREATE = "server create --flavor m1.tiny --image cirros --nic none"
BOOT = "nova boot --flavor m1.tiny --image cirros --nic none"
NOBODY = "00000000-0000-4000-8000-00000000dead"
HOST = "OS-EXT-SRV-ATTR:host"
ZONE = "OS-EXT-AZ:availability_zone"

GROUPS: tuple[Command, ...] = (
    usual(
        shows(
            "server group create --policy anti-affinity --rule max_server_per_host=2 apart",
            name="apart",
            policy="anti-affinity",
            rules={"max_server_per_host": 2},
        )
    ),
    refused("server group create --policy nonsense x", "nonsense"),
    refused(
        "server group create --policy affinity --rule max_server_per_host=2 x",
        "only with the policy anti-affinity",
    ),
    shows("server group create --policy affinity together", policy="affinity"),
    usual(lists_row("server group list", {"Name": "apart", "Policy": "anti-affinity"})),
    lists("server group list --long", "Name", "apart", "together"),
    shows("server group show together", policy="affinity", members=[]),
    refused("server group show nope", "No ServerGroup found for nope"),
    usual(says("nova server-group-list", "apart")),
)

MAKING: tuple[Command, ...] = (
    usual(shows(f"{CREATE} first", name="first", status="~BUILD|ACTIVE")),
    usual(
        settling(
            shows_fields(
                "server show first",
                {"status": "ACTIVE", "image": "~cirros", HOST: "~fake-0000", "project_id": "admin"},
            )
        )
    ),
    shows(f"{CREATE} --wait second", status="ACTIVE"),
    shows(f"{CREATE} --property role=db --tag blue --description words third", name="third"),
    settling(
        shows(
            "server show third",
            status="ACTIVE",
            properties={"role": "db"},
            tags=["blue"],
            description="words",
        )
    ),
    usual(shows(f"{CREATE} --availability-zone fast zoned", name="zoned")),
    settling(shows_fields("server show zoned", {ZONE: "fast", HOST: "fake-00001"})),
    shows(f"{CREATE} --host fake-00003 hosted", name="hosted"),
    settling(shows_fields("server show hosted", {HOST: "fake-00003", "status": "ACTIVE"})),
    shows(f"{CREATE} --hypervisor-hostname fake-00002 noded", name="noded"),
    settling(shows_fields("server show noded", {HOST: "fake-00002", "status": "ACTIVE"})),
    shows(f"{CREATE} --availability-zone nova:fake-00000 forced", name="forced"),
    settling(shows_fields("server show forced", {HOST: "fake-00000", "status": "ACTIVE"})),
    shows(f"{CREATE} --server-group together inside", name="inside"),
    shows("server group show together", members="~[0-9a-f-]{36}"),
    usual(shows(f"{CREATE} --min 2 --max 3 many", name="many-1")),
    usual(settling(lists("server list --name many", "Status", "ACTIVE", "ACTIVE", "ACTIVE"))),
    says(f"{BOOT} --min-count 2 --max-count 2 booted", r"name +\| booted-1"),
    usual(says(f"{BOOT} --meta a=b plain", r"metadata +\| \{\"a\": \"b\"\}")),
)

REFUSALS: tuple[Command, ...] = (
    usual(
        refused(
            "server create --flavor nope --image cirros --nic none x", "No Flavor found for nope"
        )
    ),
    usual(
        refused(
            "server create --flavor m1.tiny --image nope --nic none x", "No Image found for nope"
        )
    ),
    refused(
        "server create --flavor m1.tiny --image huge --nic none x",
        r"memory \(512 MB\) is too small",
    ),
    refused(f"{CREATE} --min 2 --max 1 x", "min instances should be <= max instances"),
    refused(f"{CREATE} --min 20000 --max 20000 x", "max_count.*20000"),
    refused(f"{CREATE} --availability-zone nope x", "'nope' is not available"),
    refused(f"{CREATE} --host nope x", "nope"),
    refused("server create --flavor m1.tiny --image cirros --network net1 x", "networks?"),
    refused("server create --flavor m1.tiny --volume vol1 --nic none x", "[Vv]olume"),
    refused("nova boot --flavor nope --image cirros --nic none x", "No flavor with a name or ID"),
    refused(
        "nova boot --flavor m1.tiny --image nope --nic none x", "No image with a name or ID|nope"
    ),
    with_tokens(says("nova quota-update --force --instances 1 admin")),
    with_tokens(refused(f"{CREATE} full", "Quota exceeded for instances: Requested 1")),
    with_tokens(says("quota delete admin")),
    # No host is left for it: the request is taken, and the server says why.
    usual(
        shows(
            f"{CREATE} --hint different_host={NOBODY} --hint same_host={NOBODY} lost", name="lost"
        )
    ),
    usual(
        settling(
            shows(
                "server show lost",
                status="ERROR",
                fault="~SameHostFilter",
            )
        )
    ),
    refused(f"{CREATE} --hint same_host={NOBODY} --wait alone", "[Ee]rror"),
    refused(f"{CREATE} --hint different_host=first x", "'first' is not the id of a server"),
)

LISTS: tuple[Command, ...] = (
    usual(lists_row("server list", {"Name": "first", "Status": "ACTIVE", "Flavor": "m1.tiny"})),
    lists_row("server list --long", {"Name": "first", "Image Name": "cirros", "Host Status": "UP"}),
    lists("server list --name ^first$", "Name", "first"),
    lists("server list --status ERROR", "Name", "lost", "alone"),
    lists("server list --host fake-00003 --all-projects --name hosted", "Name", "hosted"),
    lists("server list --flavor m1.small", "Name"),
    lists_row("server list --image cirros", {"Name": "second"}),
    lists_row("server list --project admin", {"Name": "second"}),
    lists("server list --project web", "Name"),
    lists_row("server list --user admin", {"Name": "second"}),
    lists("server list --limit 1", "Name", "alone"),
    lists("server list --tags blue", "Name", "third"),
    lists("server list --not-tags blue --name third", "Name"),
    lists_row("server list --no-name-lookup", {"Name": "first", "Flavor": "~m1.tiny|1"}),
    lists("server list --changes-since 2100-01-01T00:00:00", "Name"),
    usual(says("nova list", r"\| first +\| ACTIVE")),
    says("nova list --name first", "first"),
    says("nova list --sort display_name:asc", r"\| alone [\s\S]*\| first [\s\S]*\| second "),
    says("nova list --sort display_name:desc", r"\| second [\s\S]*\| first [\s\S]*\| alone "),
    usual(says("nova show first", r"status +\| ACTIVE")),
    refused("nova show nope", "No server with a name or ID of 'nope' exists"),
    refused("server show nope", "No Server found for nope"),
)

CHANGES: tuple[Command, ...] = (
    usual(says("server set --name renamed --property a=b --description words first")),
    usual(shows("server show renamed", properties={"a": "b"}, description="words")),
    says("server set --tag red --tag green renamed"),
    shows("server show renamed", tags="~red"),
    says("server unset --tag red --property a renamed"),
    shows("server show renamed", tags=["green"], properties={}),
    usual(says("server set --name first renamed")),
    says("nova meta first set c=d"),
    shows("server show first", properties={"c": "d"}),
    says("nova server-tag-add first tall", "tall"),
    says("nova server-tag-list first", "tall", "green"),
    says("nova server-tag-delete first tall", "accepted"),
    says("nova server-tag-set first one two"),
    says("nova server-tag-list first", "one", "two"),
    says("nova server-tag-delete-all first"),
    says("nova server-tag-list first", "Tag"),
)

ASIDE: tuple[Command, ...] = (
    usual(lists("server volume list first", "Volume ID")),
    refused("server add volume first vol1", "block-storage|[Vv]olume"),
    refused("server add network first net1", "networks?"),
    refused("server add security group first sg", "network"),
    with_tokens(refused("server add floating ip first 1.2.3.4", "network")),
    usual(says("console url show first", r"ws://\S+/berth/v1/console\?token=\w")),
    usual(refused("console url show --serial first", "novnc")),
    usual(says("server show --diagnostics first", "memory")),
    usual(refused("network list", "network")),
    with_tokens(refused("volume list", "block-storage|volume")),
    usual(says("usage list", "RAM MB-Hours")),
    usual(says("nova interface-list first", "Port ID")),
    usual(says("nova volume-attachments first", "VOLUME ID")),
    says("nova usage-list", "RAM MiB-Hours"),
)

ENDS: tuple[Command, ...] = (
    usual(says("server delete zoned")),
    usual(settling(refused("server show zoned", "No Server found for zoned"))),
    says("server delete --wait second third"),
    says("nova delete plain", "has been accepted"),
    says("nova force-delete noded"),
    refused("server delete nope", "nope"),
    says("server group delete together"),
    refused("server group delete together", "together"),
    says("aggregate remove host racks fake-00001", "hosts"),
    says("aggregate delete racks"),
    lists("aggregate list", "Name"),
)

COMMANDS = (*GROUPS, *MAKING, *REFUSALS, *LISTS, *CHANGES, *ASIDE, *ENDS)
