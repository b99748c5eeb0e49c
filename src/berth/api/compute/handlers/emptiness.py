"""Handlers for API extensions, and for resources that Berth does not have.

Lists of such resources are empty, because many clients read them; creation is refused.
"""

from berth.api.compute.handlers.servers.servers import server_of
from berth.api.compute.schemas.emptiness import (
    AddressesAnswer,
    ExtensionAnswer,
    ExtensionsAnswer,
    ExtensionView,
    InterfacesAnswer,
    PasswordAnswer,
    SecurityGroupsAnswer,
    VolumesAnswer,
)
from berth.api.compute.views.servers import addresses_of
from berth.api.errors import HttpError
from berth.api.routing import Answer, Call
from berth.domain.errors import NotFoundError

# Nova gives every extension of the v2.1 API this same date.
_UPDATED = "2014-12-03T00:00:00Z"
# Aliases and names of Nova's extensions that Berth implements. Old clients look up an alias before
# they use the feature.
_NAMES = {
    "OS-DCF": "DiskConfig",
    "OS-EXT-AZ": "ExtendedAvailabilityZone",
    "OS-EXT-SRV-ATTR": "ExtendedServerAttributes",
    "OS-EXT-STS": "ExtendedStatus",
    "OS-FLV-DISABLED": "FlavorDisabled",
    "OS-FLV-EXT-DATA": "FlavorExtraData",
    "OS-SCH-HNT": "SchedulerHints",
    "OS-SRV-USG": "ServerUsage",
    "os-aggregates": "Aggregates",
    "os-availability-zone": "AvailabilityZone",
    "os-consoles": "Consoles",
    "os-flavor-access": "FlavorAccess",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-flavor-rxtx": "FlavorRxtx",
    "os-hypervisors": "Hypervisors",
    "os-keypairs": "Keypairs",
    "os-multiple-create": "MultipleCreate",
    "os-hosts": "Hosts",
    "os-instance_usage_audit_log": "OSInstanceUsageAuditLog",
    "os-server-groups": "ServerGroups",
    "os-server-password": "ServerPassword",
    "os-services": "Services",
    "os-simple-tenant-usage": "SimpleTenantUsage",
    "os-used-limits": "UsedLimits",
}


async def list_extensions(call: Call) -> Answer:  # noqa: ARG001 - every handler takes a call
    """List the API extensions that Berth implements."""
    return Answer(ExtensionsAnswer(extensions=[_view(alias) for alias in _NAMES]))


async def show_extension(call: Call) -> Answer:
    """Show an API extension that Berth implements.

    Raises:
        NotFoundError: Berth does not implement an extension with this alias.
    """
    alias = call.key("alias")
    if alias not in _NAMES:
        raise NotFoundError("extension", alias)
    return Answer(ExtensionAnswer(extension=_view(alias)))


def _view(alias: str) -> ExtensionView:
    return ExtensionView(
        alias=alias,
        name=_NAMES[alias],
        description="",
        namespace="",
        updated=_UPDATED,
        links=[],
    )


async def list_volumes(call: Call) -> Answer:
    """List the volumes of a server; the list is always empty.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    # An empty list for a server that the caller may not see would reveal that the server exists. As
    # in the handlers below, the lookup responds with 404 to such a request.
    await server_of(call)
    return Answer(VolumesAnswer(attachments=[]))


async def list_addresses(call: Call) -> Answer:
    """List the addresses of a server by network; the list of each network is empty.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    return Answer(AddressesAnswer(addresses=addresses_of(await server_of(call))))


async def show_addresses(call: Call) -> Answer:
    """List the addresses of a server on one of its networks; the list is always empty.

    Raises:
        NotFoundError: the server has no network with this name.
    """
    network = call.key("network")
    addresses = addresses_of(await server_of(call))
    if network not in addresses:
        raise NotFoundError("network", network)
    return Answer({network: addresses[network]})


async def show_password(call: Call) -> Answer:
    """Show the encrypted password of a server; it is always empty.

    A guest can set it only through a metadata service, which Berth does not have.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    await server_of(call)
    return Answer(PasswordAnswer(password=""))


async def clear_password(call: Call) -> Answer:
    """Clear the encrypted password of a server, which is empty already.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    await server_of(call)
    return Answer()


async def list_security_groups(call: Call) -> Answer:
    """Return the empty list of the security groups of a server; Berth has only their names.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    await server_of(call)
    return Answer(SecurityGroupsAnswer(security_groups=[]))


async def list_interfaces(call: Call) -> Answer:
    """List the network interfaces of a server; the list is always empty.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    await server_of(call)
    return Answer(InterfacesAnswer(attachments=[]))


async def refuse_volume(call: Call) -> Answer:
    """Refuse to attach a volume.

    Raises:
        NotFoundError: the caller sees no such server.
        HttpError: 403 otherwise.
    """
    await server_of(call)
    raise HttpError(403, "Berth has no volumes, so none can be attached.")


async def refuse_interface(call: Call) -> Answer:
    """Refuse to attach a network interface.

    Raises:
        NotFoundError: the caller sees no such server.
        HttpError: 403 otherwise.
    """
    await server_of(call)
    raise HttpError(403, "Berth has no networks, so no interface can be attached.")
