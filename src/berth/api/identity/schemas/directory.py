"""Queries and response bodies for users, projects, domains, roles and the catalog."""

from berth.api.codec import Model, View
from berth.api.identity.schemas.tokens import ServiceEntry


class NameQuery(Model):
    """The name of the object to list; if it is missing, all objects are listed."""

    name: str | None = None


class CatalogServicesQuery(Model):
    """Filters of a list of services."""

    name: str | None = None
    type: str | None = None


class EndpointsQuery(Model):
    """Filters of a list of endpoints."""

    service_id: str | None = None
    interface: str | None = None
    region_id: str | None = None


class ListLinks(View):
    """The links of a list, which always has one page."""

    self: str
    previous: None = None
    next: None = None


class SelfLink(View):
    """The link to a resource."""

    self: str


class UserView(View):
    """A user; its id is its name."""

    id: str
    name: str
    domain_id: str
    default_project_id: str
    enabled: bool
    links: SelfLink


class ProjectView(View):
    """A project; its id is its name."""

    id: str
    name: str
    domain_id: str
    parent_id: str
    description: str
    enabled: bool
    is_domain: bool
    tags: list[str]
    links: SelfLink


class DomainFullView(View):
    """A domain; only the default domain exists."""

    id: str
    name: str
    description: str
    enabled: bool
    links: SelfLink


class RoleFullView(View):
    """A role; its id is its name."""

    id: str
    name: str
    domain_id: None
    links: SelfLink


class UserAnswer(View):
    """The response with one user."""

    user: UserView


class UsersAnswer(View):
    """The response with users, sorted by name."""

    users: list[UserView]
    links: ListLinks


class ProjectAnswer(View):
    """The response with one project."""

    project: ProjectView


class ProjectsAnswer(View):
    """The response with projects, sorted by name."""

    projects: list[ProjectView]
    links: ListLinks


class DomainAnswer(View):
    """The response with one domain."""

    domain: DomainFullView


class DomainsAnswer(View):
    """The response with the only domain, or with none if the query names another."""

    domains: list[DomainFullView]
    links: ListLinks


class RoleAnswer(View):
    """The response with one role."""

    role: RoleFullView


class RolesAnswer(View):
    """The response with roles, sorted by name."""

    roles: list[RoleFullView]
    links: ListLinks


class CatalogAnswer(View):
    """The response with all services of this deployment and their endpoints."""

    catalog: list[ServiceEntry]
    links: ListLinks


class CatalogServiceView(View):
    """A service of the catalog without its endpoints."""

    id: str
    name: str
    type: str
    description: str
    enabled: bool
    links: SelfLink


class CatalogServiceAnswer(View):
    """The response with one service of the catalog."""

    service: CatalogServiceView


class CatalogServicesAnswer(View):
    """The response with the services of the catalog that match the filters."""

    services: list[CatalogServiceView]
    links: ListLinks


class EndpointFullView(View):
    """An endpoint: the URL of a service for one interface."""

    id: str
    service_id: str
    interface: str
    region: str
    region_id: str
    url: str
    enabled: bool
    links: SelfLink


class EndpointAnswer(View):
    """The response with one endpoint."""

    endpoint: EndpointFullView


class EndpointsAnswer(View):
    """The response with the endpoints that match the filters."""

    endpoints: list[EndpointFullView]
    links: ListLinks


class RegionView(View):
    """The region of this deployment, which the setting `auth.region` names."""

    id: str
    description: str
    parent_region_id: None
    links: SelfLink


class RegionAnswer(View):
    """The response with one region."""

    region: RegionView


class RegionsAnswer(View):
    """The response with all regions; there is exactly one."""

    regions: list[RegionView]
    links: ListLinks
