"""The operations of the compute API on servers, flavors, hosts, aggregates and server groups."""

from berth.api.compute.handlers import (
    aggregates,
    availability_zones,
    flavors,
    hosts,
    hypervisors,
    server_groups,
    services,
)
from berth.api.compute.handlers.servers import (
    server_actions,
    server_diagnostics,
    server_lists,
    server_metadata,
    servers,
)
from berth.api.compute.schemas.aggregates import (
    AggregateAction,
    AggregateAnswer,
    AggregateChangeBody,
    AggregatesAnswer,
    NewAggregateBody,
)
from berth.api.compute.schemas.availability_zones import ZonesAnswer
from berth.api.compute.schemas.diagnostics import DiagnosticsAnswer
from berth.api.compute.schemas.flavors import (
    FlavorAccessAnswer,
    FlavorAction,
    FlavorAnswer,
    FlavorChangeBody,
    FlavorLinesAnswer,
    FlavorsAnswer,
    FlavorsQuery,
    NewFlavorBody,
    OneSpec,
    SpecsAnswer,
    SpecsBody,
)
from berth.api.compute.schemas.hosts import (
    HostAnswer,
    HostChange,
    HostChanged,
    HostsAnswer,
    HostsQuery,
)
from berth.api.compute.schemas.hypervisors import (
    HypervisorAnswer,
    HypervisorQuery,
    HypervisorsAnswer,
    HypervisorsQuery,
    StatisticsAnswer,
)
from berth.api.compute.schemas.server_groups import (
    NewServerGroupBody,
    ServerGroupAnswer,
    ServerGroupsAnswer,
    ServerGroupsQuery,
)
from berth.api.compute.schemas.server_views import (
    CreatedAnswer,
    MetadataAnswer,
    MetadataItemAnswer,
    ServerAnswer,
    ServerLinesAnswer,
    ServersAnswer,
)
from berth.api.compute.schemas.servers import (
    MetadataBody,
    MetadataItemBody,
    NewServerBody,
    ServerAction,
    ServerChangeBody,
    ServersQuery,
)
from berth.api.compute.schemas.services import (
    ServiceAnswer,
    ServiceChange,
    ServicesAnswer,
    ServicesQuery,
)
from berth.api.routing import STRICTER, ApiOperation, Role

PREFIX = "/v2.1"

_SERVER = "/v2.1/servers/{server_id}"
_METADATA = f"{_SERVER}/metadata"
_FLAVOR = "/v2.1/flavors/{flavor_id}"
_SPECS = f"{_FLAVOR}/os-extra_specs"
_HYPERVISOR = "/v2.1/os-hypervisors/{hypervisor_id}"
_AGGREGATE = "/v2.1/os-aggregates/{aggregate_id}"
_SERVICE = "/v2.1/os-services/{service_id}"
_GROUP = "/v2.1/os-server-groups/{group_id}"
_ADMIN = Role.ADMIN
# The last microversion with searches by path; 2.53 replaces them with query parameters.
_BEFORE_UUIDS = (2, 52)
# The last microversion with the uptime at a path of its own; 2.88 adds it to the details.
_UPTIME_UNTIL = (2, 87)
_HOST = "/v2.1/os-hosts/{host_name}"
_HOSTS_UNTIL = (2, 42)

_SERVERS = (
    ApiOperation(
        "POST",
        "/v2.1/servers",
        servers.create_servers,
        202,
        body=NewServerBody,
        answers=CreatedAnswer,
    ),
    ApiOperation(
        "GET",
        "/v2.1/servers",
        server_lists.list_servers,
        query=ServersQuery,
        answers=ServerLinesAnswer,
    ),
    ApiOperation(
        "GET",
        "/v2.1/servers/detail",
        server_lists.list_servers_in_detail,
        query=ServersQuery,
        answers=ServersAnswer,
    ),
    ApiOperation("GET", _SERVER, servers.show_server, answers=ServerAnswer),
    ApiOperation(
        "PUT", _SERVER, servers.update_server, body=ServerChangeBody, answers=ServerAnswer
    ),
    ApiOperation("DELETE", _SERVER, servers.delete_server, 204),
    ApiOperation("POST", f"{_SERVER}/action", server_actions.act_on_server, 202, body=ServerAction),
    ApiOperation(
        "GET",
        f"{_SERVER}/diagnostics",
        server_diagnostics.show_diagnostics,
        role=_ADMIN,
        answers=DiagnosticsAnswer,
    ),
    ApiOperation("GET", _METADATA, server_metadata.list_metadata, answers=MetadataAnswer),
    ApiOperation(
        "POST", _METADATA, server_metadata.add_metadata, body=MetadataBody, answers=MetadataAnswer
    ),
    ApiOperation(
        "PUT",
        _METADATA,
        server_metadata.replace_metadata,
        body=MetadataBody,
        answers=MetadataAnswer,
    ),
    ApiOperation(
        "GET", _METADATA + "/{key}", server_metadata.show_metadata_item, answers=MetadataItemAnswer
    ),
    ApiOperation(
        "PUT",
        _METADATA + "/{key}",
        server_metadata.update_metadata_item,
        body=MetadataItemBody,
        answers=MetadataItemAnswer,
    ),
    ApiOperation("DELETE", _METADATA + "/{key}", server_metadata.delete_metadata_item, 204),
)

_FLAVORS = (
    ApiOperation(
        "GET",
        "/v2.1/flavors",
        flavors.list_flavors,
        query=FlavorsQuery,
        answers=FlavorLinesAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation(
        "POST",
        "/v2.1/flavors",
        flavors.create_flavor,
        role=_ADMIN,
        body=NewFlavorBody,
        answers=FlavorAnswer,
    ),
    ApiOperation(
        "GET",
        "/v2.1/flavors/detail",
        flavors.list_flavors_in_detail,
        query=FlavorsQuery,
        answers=FlavorsAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation("GET", _FLAVOR, flavors.show_flavor, answers=FlavorAnswer),
    ApiOperation(
        "PUT",
        _FLAVOR,
        flavors.update_flavor,
        role=_ADMIN,
        body=FlavorChangeBody,
        answers=FlavorAnswer,
        since=(2, 55),
    ),
    ApiOperation("DELETE", _FLAVOR, flavors.delete_flavor, 202, role=_ADMIN),
    ApiOperation(
        "GET",
        f"{_FLAVOR}/os-flavor-access",
        flavors.list_access,
        role=_ADMIN,
        answers=FlavorAccessAnswer,
    ),
    ApiOperation(
        "POST",
        f"{_FLAVOR}/action",
        flavors.act_on_flavor,
        role=_ADMIN,
        body=FlavorAction,
        answers=FlavorAccessAnswer,
    ),
    ApiOperation("GET", _SPECS, flavors.list_extra_specs, answers=SpecsAnswer),
    ApiOperation(
        "POST",
        _SPECS,
        flavors.create_extra_specs,
        role=_ADMIN,
        body=SpecsBody,
        answers=SpecsAnswer,
    ),
    ApiOperation("GET", _SPECS + "/{key}", flavors.show_extra_spec, answers=dict[str, str]),
    ApiOperation(
        "PUT",
        _SPECS + "/{key}",
        flavors.update_extra_spec,
        role=_ADMIN,
        body=OneSpec,
        answers=dict[str, str],
    ),
    ApiOperation("DELETE", _SPECS + "/{key}", flavors.delete_extra_spec, role=_ADMIN),
)

_FLEET = (
    ApiOperation(
        "GET",
        "/v2.1/os-hypervisors",
        hypervisors.list_hypervisors,
        role=_ADMIN,
        query=HypervisorsQuery,
        answers=HypervisorsAnswer,
    ),
    ApiOperation(
        "GET",
        "/v2.1/os-hypervisors/detail",
        hypervisors.list_hypervisors_in_detail,
        role=_ADMIN,
        query=HypervisorsQuery,
        answers=HypervisorsAnswer,
    ),
    ApiOperation(
        "GET",
        # This path comes before the one with an id, which would match `statistics` as well.
        "/v2.1/os-hypervisors/statistics",
        hypervisors.show_statistics,
        role=_ADMIN,
        answers=StatisticsAnswer,
        until=(2, 87),
    ),
    ApiOperation(
        "GET",
        _HYPERVISOR,
        hypervisors.show_hypervisor,
        role=_ADMIN,
        query=HypervisorQuery,
        answers=HypervisorAnswer,
    ),
    ApiOperation(
        "GET",
        f"{_HYPERVISOR}/uptime",
        hypervisors.show_uptime,
        role=_ADMIN,
        answers=HypervisorAnswer,
        until=_UPTIME_UNTIL,
    ),
    ApiOperation(
        "GET",
        f"{_HYPERVISOR}/search",
        hypervisors.search_hypervisors,
        role=_ADMIN,
        answers=HypervisorsAnswer,
        until=_BEFORE_UUIDS,
    ),
    ApiOperation(
        "GET",
        f"{_HYPERVISOR}/servers",
        hypervisors.list_hypervisor_servers,
        role=_ADMIN,
        answers=HypervisorsAnswer,
        until=_BEFORE_UUIDS,
    ),
    ApiOperation(
        "GET",
        "/v2.1/os-services",
        services.list_services,
        role=_ADMIN,
        query=ServicesQuery,
        answers=ServicesAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation(
        "PUT",
        _SERVICE,
        services.update_service,
        role=_ADMIN,
        body=ServiceChange,
        answers=ServiceAnswer,
    ),
    ApiOperation(
        "GET",
        "/v2.1/os-hosts",
        hosts.list_hosts,
        role=_ADMIN,
        query=HostsQuery,
        answers=HostsAnswer,
        until=_HOSTS_UNTIL,
    ),
    ApiOperation(
        "GET", _HOST, hosts.show_host, role=_ADMIN, answers=HostAnswer, until=_HOSTS_UNTIL
    ),
    ApiOperation(
        "PUT",
        _HOST,
        hosts.update_host,
        role=_ADMIN,
        body=HostChange,
        answers=HostChanged,
        until=_HOSTS_UNTIL,
    ),
    *(
        ApiOperation(
            "GET", f"{_HOST}/{act}", hosts.refuse_power, 501, role=_ADMIN, until=_HOSTS_UNTIL
        )
        for act in ("startup", "shutdown", "reboot")
    ),
    ApiOperation("DELETE", _SERVICE, services.delete_service, 204, role=_ADMIN),
    ApiOperation(
        "GET", "/v2.1/os-availability-zone", availability_zones.list_zones, answers=ZonesAnswer
    ),
    ApiOperation(
        "GET",
        "/v2.1/os-availability-zone/detail",
        availability_zones.list_zones_in_detail,
        role=_ADMIN,
        answers=ZonesAnswer,
    ),
)

_AGGREGATES = (
    ApiOperation(
        "GET",
        "/v2.1/os-aggregates",
        aggregates.list_aggregates,
        role=_ADMIN,
        answers=AggregatesAnswer,
    ),
    ApiOperation(
        "POST",
        "/v2.1/os-aggregates",
        aggregates.create_aggregate,
        role=_ADMIN,
        body=NewAggregateBody,
        answers=AggregateAnswer,
    ),
    ApiOperation(
        "GET", _AGGREGATE, aggregates.show_aggregate, role=_ADMIN, answers=AggregateAnswer
    ),
    ApiOperation(
        "PUT",
        _AGGREGATE,
        aggregates.update_aggregate,
        role=_ADMIN,
        body=AggregateChangeBody,
        answers=AggregateAnswer,
    ),
    ApiOperation("DELETE", _AGGREGATE, aggregates.delete_aggregate, role=_ADMIN),
    ApiOperation(
        "POST",
        f"{_AGGREGATE}/action",
        aggregates.act_on_aggregate,
        role=_ADMIN,
        body=AggregateAction,
        answers=AggregateAnswer,
    ),
)

_GROUPS = (
    ApiOperation(
        "GET",
        "/v2.1/os-server-groups",
        server_groups.list_server_groups,
        query=ServerGroupsQuery,
        answers=ServerGroupsAnswer,
        strict_since=STRICTER,
    ),
    ApiOperation(
        "POST",
        "/v2.1/os-server-groups",
        server_groups.create_server_group,
        body=NewServerGroupBody,
        answers=ServerGroupAnswer,
    ),
    ApiOperation("GET", _GROUP, server_groups.show_server_group, answers=ServerGroupAnswer),
    ApiOperation("DELETE", _GROUP, server_groups.delete_server_group, 204),
)

OPERATIONS = (*_SERVERS, *_FLAVORS, *_FLEET, *_AGGREGATES, *_GROUPS)
