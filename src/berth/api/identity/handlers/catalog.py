"""Handlers for the service catalog, which lists the APIs of this deployment."""

import hashlib

from berth.api.header_fields import root_url
from berth.api.identity.handlers.finding import list_links, self_link
from berth.api.identity.schemas.directory import (
    CatalogAnswer,
    CatalogServiceAnswer,
    CatalogServicesAnswer,
    CatalogServicesQuery,
    CatalogServiceView,
    EndpointAnswer,
    EndpointFullView,
    EndpointsAnswer,
    EndpointsQuery,
    RegionAnswer,
    RegionsAnswer,
    RegionView,
)
from berth.api.identity.schemas.tokens import EndpointView, ServiceEntry
from berth.api.routing import Answer, Call
from berth.domain.errors import NotFoundError

# Type, name and path of each service. The names are those of OpenStack's own services.
_SERVICES = (
    ("compute", "nova", "/v2.1"),
    ("identity", "keystone", "/identity"),
    ("image", "glance", "/image"),
    ("placement", "placement", "/placement"),
)
# Clients select an endpoint by interface, and some insist on one. All three have the same URL.
_INTERFACES = ("public", "internal", "admin")


def catalog_of(call: Call) -> list[ServiceEntry]:
    """Return the services with URLs that the client of the request can reach."""
    # The root comes from the request's headers, so the URLs are also correct behind a proxy.
    root, region = root_url(call.scope), call.parts.region
    return [
        ServiceEntry(
            id=_id(kind),
            name=name,
            type=kind,
            endpoints=[
                EndpointView(
                    id=_id(kind, interface),
                    interface=interface,
                    region=region,
                    region_id=region,
                    url=f"{root}{path}",
                )
                for interface in _INTERFACES
            ],
        )
        for kind, name, path in _SERVICES
    ]


async def show_catalog(call: Call) -> Answer:
    """Show the service catalog."""
    return Answer(CatalogAnswer(catalog=catalog_of(call), links=list_links(call)))


async def list_catalog_services(call: Call) -> Answer:
    """List the services of the catalog that match the filters."""
    query = call.query(CatalogServicesQuery)
    views = [
        view
        for view in _services(call)
        if query.name in {None, view.name} and query.type in {None, view.type}
    ]
    return Answer(CatalogServicesAnswer(services=views, links=list_links(call)))


async def show_catalog_service(call: Call) -> Answer:
    """Show a service of the catalog.

    Raises:
        NotFoundError: the catalog has no such service.
    """
    key = call.key("service_id")
    for view in _services(call):
        if view.id == key:
            return Answer(CatalogServiceAnswer(service=view))
    raise NotFoundError("service", key)


async def list_endpoints(call: Call) -> Answer:
    """List the endpoints of the catalog that match the filters."""
    query = call.query(EndpointsQuery)
    views = [
        view
        for view in _endpoints(call)
        if query.service_id in {None, view.service_id}
        and query.interface in {None, view.interface}
        and query.region_id in {None, view.region_id}
    ]
    return Answer(EndpointsAnswer(endpoints=views, links=list_links(call)))


async def show_endpoint(call: Call) -> Answer:
    """Show an endpoint of the catalog.

    Raises:
        NotFoundError: the catalog has no such endpoint.
    """
    key = call.key("endpoint_id")
    for view in _endpoints(call):
        if view.id == key:
            return Answer(EndpointAnswer(endpoint=view))
    raise NotFoundError("endpoint", key)


async def list_regions(call: Call) -> Answer:
    """List the regions; there is exactly one."""
    return Answer(RegionsAnswer(regions=[_region(call)], links=list_links(call)))


async def show_region(call: Call) -> Answer:
    """Show a region.

    Raises:
        NotFoundError: there is no such region.
    """
    if call.key("region_id") != call.parts.region:
        raise NotFoundError("region", call.key("region_id"))
    return Answer(RegionAnswer(region=_region(call)))


def _services(call: Call) -> list[CatalogServiceView]:
    return [
        CatalogServiceView(
            id=entry.id,
            name=entry.name,
            type=entry.type,
            description="",
            enabled=True,
            links=self_link(call, "services", entry.id),
        )
        for entry in catalog_of(call)
    ]


def _endpoints(call: Call) -> list[EndpointFullView]:
    return [
        EndpointFullView(
            id=one.id,
            service_id=entry.id,
            interface=one.interface,
            region=one.region,
            region_id=one.region_id,
            url=one.url,
            enabled=True,
            links=self_link(call, "endpoints", one.id),
        )
        for entry in catalog_of(call)
        for one in entry.endpoints
    ]


def _region(call: Call) -> RegionView:
    name = call.parts.region
    return RegionView(
        id=name, description="", parent_region_id=None, links=self_link(call, "regions", name)
    )


def _id(*names: str) -> str:
    """Return an id derived from names, which is the same in all processes.

    Like Keystone's ids, it has 32 hexadecimal digits.
    """
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]
