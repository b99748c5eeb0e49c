"""Flavors, aggregates, zones, hypervisors and compute services."""

from tests.e2e.clients.expecting import (
    Command,
    lists,
    lists_one,
    lists_row,
    refused,
    says,
    settling,
    shows,
    usual,
)

HOSTS = ("fake-00000", "fake-00001", "fake-00002", "fake-00003")

FLAVORS: tuple[Command, ...] = (
    usual(shows("flavor create --id 1 --vcpus 1 --ram 512 --disk 1 m1.tiny", id="1", ram=512)),
    usual(
        shows(
            "flavor create --vcpus 2 --ram 2048 --disk 20 --property hw:cpu_policy=shared m1.small",
            name="m1.small",
            properties={"hw:cpu_policy": "shared"},
            id=r"~^[0-9a-f-]{36}$",
        )
    ),
    shows("flavor create --id 9 --vcpus 1 --ram 64 --disk 0 --private hidden", id="9"),
    refused("flavor create --id 1 --vcpus 1 --ram 512 --disk 1 other", "already exists"),
    refused("flavor create --vcpus 0 --ram 512 --disk 1 other", "vcpus"),
    usual(lists("flavor list", "Name", "m1.tiny", "m1.small")),
    lists("flavor list --all", "Name", "m1.tiny", "m1.small", "hidden"),
    lists("flavor list --min-ram 1000", "Name", "m1.small"),
    # In the order of ids, and one of them was made up.
    lists_one("flavor list --limit 1", "Name", "m1.tiny", "m1.small"),
    usual(shows("flavor show m1.tiny", vcpus=1, disk=1)),
    shows("flavor show 1", name="m1.tiny"),
    refused("flavor show nope", "No Flavor found for nope"),
    says("flavor set --property colour=red --description text m1.small"),
    shows(
        "flavor show m1.small",
        description="text",
        properties={"hw:cpu_policy": "shared", "colour": "red"},
    ),
    says("flavor unset --property colour m1.small"),
    shows("flavor show m1.small", properties={"hw:cpu_policy": "shared"}),
    says("flavor set --project web hidden"),
    shows("flavor show hidden", access_project_ids=["web"]),
    says("flavor unset --project web hidden"),
    says("flavor delete hidden"),
    refused("flavor delete hidden", "hidden"),
    usual(says("nova flavor-list", r"\| m1\.tiny +\| 512 ")),
    usual(says("nova flavor-show m1.small", r"hw:cpu_policy")),
)

AGGREGATES: tuple[Command, ...] = (
    usual(
        shows(
            "aggregate create --zone fast --property ssd=true racks",
            name="racks",
            availability_zone="fast",
            hosts=[],
        )
    ),
    refused("aggregate create racks", "racks"),
    usual(shows("aggregate add host racks fake-00001", hosts=["fake-00001"])),
    refused("aggregate add host racks nope", "nope"),
    refused("aggregate add host racks fake-00001", "fake-00001"),
    usual(lists_row("aggregate list --long", {"Name": "racks", "Properties": {"ssd": "true"}})),
    says("aggregate set --name rows --property gpu=no racks"),
    shows("aggregate show rows", properties={"ssd": "true", "gpu": "no"}),
    says("aggregate unset --property gpu rows"),
    says("aggregate set --name racks rows"),
    refused("aggregate show rows", "rows"),
    refused("aggregate delete racks", "not empty|has hosts|hosts"),
    usual(refused("aggregate cache image racks cirros", "does not cache images")),
    usual(says("nova aggregate-show racks", r"'fake-00001'", "ssd=true")),
    usual(says("nova aggregate-list", r"racks \| fast")),
    usual(
        lists_row(
            "availability zone list --compute --long",
            {"Zone Name": "fast", "Host Name": "fake-00001", "Service Status": "~enabled :-\\)"},
        )
    ),
    usual(says("nova availability-zone-list", r"\|- fake-00001")),
)

HYPERVISORS: tuple[Command, ...] = (
    usual(lists("hypervisor list", "Hypervisor Hostname", *HOSTS)),
    lists("hypervisor list --matching 00002", "Hypervisor Hostname", "fake-00002"),
    # The limit is that of a page, and the client asks for all of them.
    lists("hypervisor list --limit 2", "Hypervisor Hostname", *HOSTS),
    shows(
        "hypervisor show fake-00001",
        aggregates=["racks"],
        service_host="fake-00001",
        state="up",
        status="enabled",
    ),
    shows("--os-compute-api-version 2.53 hypervisor show fake-00001", state="up"),
    refused("hypervisor show nope", "No Hypervisor found for nope"),
    usual(shows("hypervisor stats show", count=4, vcpus=128, memory_mb=524288)),
    usual(says("host list", "fake-00003")),
    usual(says("nova hypervisor-list", "fake-00003")),
    usual(says("nova hypervisor-show fake-00002", r"hypervisor_hostname +\| fake-00002")),
    usual(says("nova hypervisor-servers fake-00002", "Name")),
)

SERVICES: tuple[Command, ...] = (
    usual(lists("compute service list", "Host", *HOSTS)),
    lists("compute service list --host fake-00002", "Host", "fake-00002"),
    usual(says("compute service set --disable --disable-reason broken fake-00002 nova-compute")),
    lists_row(
        "compute service list --long",
        {"Host": "fake-00002", "Status": "disabled", "Disabled Reason": "broken"},
    ),
    says("compute service set --enable fake-00002 nova-compute"),
    lists_row("compute service list", {"Host": "fake-00002", "Status": "enabled"}),
    says("compute service set --down fake-00002 nova-compute"),
    settling(lists_row("compute service list", {"Host": "fake-00002", "State": "down"})),
    says("compute service set --up fake-00002 nova-compute"),
    settling(lists_row("compute service list", {"Host": "fake-00002", "State": "up"})),
    refused("compute service set --disable nope nova-compute", "nope"),
    refused("compute service delete 1", "could not be found"),
    usual(says("nova service-list --host fake-00000", "nova-compute")),
)

PROVIDERS: tuple[Command, ...] = (
    usual(lists("resource provider list", "name", *HOSTS)),
    usual(lists_row("resource class list", {"name": "VCPU"})),
    usual(lists_row("trait list", {"name": "HW_CPU_X86_AVX"})),
    usual(
        lists(
            "--os-placement-api-version 1.39 allocation candidate list --resource VCPU=1 --limit 2",
            "#",
            1,
            2,
        )
    ),
    usual(refused("resource provider show 11111111-0000-4000-8000-000000000000", "HTTP 404")),
    usual(lists("resource usage show nobody", "resource_class")),
)

COMMANDS = (*FLAVORS, *AGGREGATES, *HYPERVISORS, *SERVICES, *PROVIDERS)
