"""Users, projects, domains, roles and services, as clients look them up."""

from berth.api.codec import Model, View
from berth.api.identity.schemas.tokens import ServiceEntry


class NameQuery(Model):
    """Which to list."""

    name: str | None = None


class CatalogServicesQuery(Model):
    """Which services to list."""

    name: str | None = None
    type: str | None = None


class EndpointsQuery(Model):
    """Which endpoints to list."""

    service_id: str | None = None
    interface: str | None = None
    region_id: str | None = None


class ListLinks(View):
    """Where a list is; it has one page."""

    self: str
    previous: None = None
    next: None = None


class SelfLink(View):
    """Where something is."""

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
    """A domain."""

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
    """One user."""

    user: UserView


class UsersAnswer(View):
    """Users by name."""

    users: list[UserView]
    links: ListLinks


class ProjectAnswer(View):
    """One project."""

    project: ProjectView


class ProjectsAnswer(View):
    """Projects by name."""

    projects: list[ProjectView]
    links: ListLinks


class DomainAnswer(View):
    """One domain."""

    domain: DomainFullView


class DomainsAnswer(View):
    """The domains, of which there is one."""

    domains: list[DomainFullView]
    links: ListLinks


class RoleAnswer(View):
    """One role."""

    role: RoleFullView


class RolesAnswer(View):
    """The roles."""

    roles: list[RoleFullView]
    links: ListLinks


class CatalogAnswer(View):
    """What this server offers, and where."""

    catalog: list[ServiceEntry]
    links: ListLinks


class CatalogServiceView(View):
    """A service."""

    id: str
    name: str
    type: str
    description: str
    enabled: bool
    links: SelfLink


class CatalogServiceAnswer(View):
    """One service."""

    service: CatalogServiceView


class CatalogServicesAnswer(View):
    """The services by type."""

    services: list[CatalogServiceView]
    links: ListLinks


class EndpointFullView(View):
    """Where a service is, for one kind of client."""

    id: str
    service_id: str
    interface: str
    region: str
    region_id: str
    url: str
    enabled: bool
    links: SelfLink


class EndpointAnswer(View):
    """One endpoint."""

    endpoint: EndpointFullView


class EndpointsAnswer(View):
    """The endpoints of the services."""

    endpoints: list[EndpointFullView]
    links: ListLinks


class RegionView(View):
    """A region."""

    id: str
    description: str
    parent_region_id: None
    links: SelfLink


class RegionAnswer(View):
    """One region."""

    region: RegionView


class RegionsAnswer(View):
    """The regions, of which there is one."""

    regions: list[RegionView]
    links: ListLinks
