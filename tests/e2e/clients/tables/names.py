"""Images, users, projects, limits and quotas, as they are before there is any server."""

from tests.e2e.clients.expecting import (
    Command,
    lists,
    lists_row,
    refused,
    says,
    shows,
    usual,
    with_tokens,
)

CIRROS = "6f0a2f62-7f44-4b3d-8a3d-0c0d0e0f0a01"

IMAGES: tuple[Command, ...] = (
    usual(lists("image list", "Name", "cirros", "huge")),
    lists_row("image list --long", {"Name": "cirros", "Visibility": "public"}),
    lists("image list --name cirros", "ID", CIRROS),
    lists("image list --property hw_disk_bus=virtio", "Name", "cirros"),
    lists("image list --private", "Name"),
    lists("image list --limit 1", "Name", "cirros"),
    usual(shows("image show cirros", id=CIRROS, min_disk=1, status="active")),
    shows(f"image show {CIRROS}", name="cirros"),
    refused("image show nope", "nope"),
    usual(refused("image create new", "file that the setting api.images names")),
    refused("image set --name other cirros", "file that the setting api.images names"),
    refused("image delete cirros", "file that the setting api.images names"),
)

DIRECTORY: tuple[Command, ...] = (
    usual(lists_row("project list", {"Name": "admin"})),
    usual(lists_row("user list", {"Name": "admin"})),
    with_tokens(lists("project list", "Name", "admin", "web")),
    with_tokens(lists("user list", "Name", "admin", "alice")),
    shows("project show web", id="web", domain_id="default", enabled=True),
    with_tokens(shows("user show alice", id="alice", default_project_id="web")),
    with_tokens(refused("project show nope", "nope")),
    with_tokens(refused("user show nope", "nope")),
    usual(lists("domain list", "ID", "default")),
    usual(lists("role list", "Name", "admin", "member", "reader")),
    shows("role show reader", id="reader"),
    usual(lists("service list", "Type", "compute", "identity", "image", "placement")),
    usual(shows("service show compute", name="nova")),
    shows("service show glance", type="image"),
    refused("service show network", "network"),
    lists("endpoint list --service image", "Interface", "public", "internal", "admin"),
    lists("endpoint list --interface admin --service compute", "Service Name", "nova"),
    usual(lists_row("endpoint list", {"Service Type": "compute", "Interface": "public"})),
    usual(lists("region list", "Region", "RegionOne")),
    refused("project create new", "berth user add"),
    refused("user create new --password secret", "berth user add"),
)

LIMITS: tuple[Command, ...] = (
    with_tokens(lists_row("limits show --absolute", {"Name": "max_total_cores", "Value": -1})),
    with_tokens(lists("limits show --rate", "Verb")),
    with_tokens(lists_row("quota show --compute", {"Resource": "cores", "Limit": -1})),
    with_tokens(lists_row("quota show --usage", {"Resource": "instances", "In Use": 0})),
    with_tokens(says("quota set --cores 500 admin")),
    with_tokens(lists_row("quota show --compute", {"Resource": "cores", "Limit": 500})),
    with_tokens(says("quota set --key-pairs 5 admin")),
    with_tokens(says("quota delete admin")),
    with_tokens(says("nova quota-class-show default", r"instances +\| -1")),
    usual(lists("keypair list", "Name")),
    says("keypair create new", "PRIVATE KEY"),
    refused("keypair create new", "already exists"),
    lists_row("keypair list", {"Name": "new", "Type": "ssh"}),
    shows("keypair show new", name="new", user_id="admin"),
    says("keypair delete new"),
    refused("keypair show new", "new"),
    usual(lists_row("extension list --compute", {"Alias": "OS-SCH-HNT"})),
    usual(says("nova limits", r"Cores +\| 0 +\| -1")),
    with_tokens(says("nova quota-show", r"cores +\| -1")),
    with_tokens(says("nova quota-defaults", r"cores +\| -1")),
    usual(says("nova keypair-list", "Fingerprint")),
    usual(says("nova version-list", r"2\.104")),
)

TOKENS: tuple[Command, ...] = (
    shows("token issue", project_id="admin", user_id="admin", expires="~^20"),
    lists("catalog list", "Type", "compute", "identity", "image", "placement"),
    shows("catalog show compute", name="nova", type="compute"),
    lists_row(
        "versions show", {"Service Type": "compute", "Version": "2.1", "Max Microversion": "2.104"}
    ),
    lists_row("availability zone list", {"Zone Name": "nova", "Zone Status": "available"}),
)

COMMANDS = (*IMAGES, *DIRECTORY, *LIMITS, *map(with_tokens, TOKENS))
