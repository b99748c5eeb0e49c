"""Handlers that list and show users, projects, domains and roles; the API cannot change them."""

from berth.api.auth.directory import Person, projects_of
from berth.api.errors import HttpError
from berth.api.identity.handlers.finding import (
    DOMAIN,
    DOMAIN_NAME,
    list_links,
    only_admins,
    self_link,
)
from berth.api.identity.schemas.directory import (
    DomainAnswer,
    DomainFullView,
    DomainsAnswer,
    NameQuery,
    ProjectAnswer,
    ProjectsAnswer,
    ProjectView,
    RoleAnswer,
    RoleFullView,
    RolesAnswer,
    UserAnswer,
    UsersAnswer,
    UserView,
)
from berth.api.routing import Answer, Call
from berth.domain.errors import NotFoundError

ROLES = ("admin", "member", "reader")
"""All roles; administrators have all of them, other users all but the first."""


async def list_users(call: Call) -> Answer:
    """List all users, or the one with the given name; only for administrators.

    Raises:
        HttpError: 403 when the caller is not an administrator.
    """
    only_admins(call)
    wanted = call.query(NameQuery).name
    if wanted is None:
        people = list(call.parts.directory.users())
    else:
        found = call.parts.directory.find_user(wanted)
        people = [] if found is None else [found]
    return Answer(UsersAnswer(users=[_user(call, one) for one in people], links=list_links(call)))


async def show_user(call: Call) -> Answer:
    """Show a user; callers other than administrators can show only themselves.

    Raises:
        HttpError: 403 when the caller is not an administrator.
        NotFoundError: there is no such user.
    """
    return Answer(UserAnswer(user=_user(call, _person(call))))


async def list_user_projects(call: Call) -> Answer:
    """List the projects for which a user can get a token; non-administrators see only their own.

    Raises:
        HttpError: 403 when the caller is not an administrator.
        NotFoundError: there is no such user.
    """
    projects = projects_of(call.parts.directory, _person(call))
    return _projects_answer(call, list(projects))


async def list_projects(call: Call) -> Answer:
    """List all projects, or the one with the given name; only for administrators.

    Raises:
        HttpError: 403 when the caller is not an administrator.
    """
    only_admins(call)
    wanted = call.query(NameQuery).name
    directory = call.parts.directory
    if wanted is None:
        return _projects_answer(call, list(directory.projects()))
    return _projects_answer(call, [wanted] if directory.has_project(wanted) else [])


async def list_own_projects(call: Call) -> Answer:
    """List the projects for which the caller can get a token."""
    person = call.parts.directory.find_user(call.identity.user_id)
    found = () if person is None else projects_of(call.parts.directory, person)
    return _projects_answer(call, list(found))


async def show_project(call: Call) -> Answer:
    """Show a project; callers other than administrators can show only their own.

    Raises:
        HttpError: 403 when the caller names another project and is not an administrator.
        NotFoundError: there is no such project.
    """
    name = call.key("project_id")
    # The caller's rights are checked first, so that a 404 does not reveal which projects exist.
    if name != call.identity.project_id:
        only_admins(call)
    if not call.parts.directory.has_project(name):
        raise NotFoundError("project", name)
    return Answer(ProjectAnswer(project=_project(call, name)))


async def refuse_person(call: Call) -> Answer:  # noqa: ARG001 - every handler takes a call
    """Refuse to create a user or a project.

    Raises:
        HttpError: 403 always.
    """
    raise HttpError(
        403, "This API cannot create users and projects; create them with `berth user add`."
    )


async def list_domains(call: Call) -> Answer:
    """List the only domain, or nothing if the query names another."""
    wanted = call.query(NameQuery).name
    domains = [_domain(call)] if wanted in {None, DOMAIN_NAME} else []
    return Answer(DomainsAnswer(domains=domains, links=list_links(call)))


async def show_domain(call: Call) -> Answer:
    """Show a domain.

    Raises:
        NotFoundError: the id is not that of the only domain.
    """
    # As in Keystone, only an id is accepted; clients look up a name in the list.
    if call.key("domain_id") != DOMAIN:
        raise NotFoundError("domain", call.key("domain_id"))
    return Answer(DomainAnswer(domain=_domain(call)))


async def list_roles(call: Call) -> Answer:
    """List all roles, or the one with the given name."""
    wanted = call.query(NameQuery).name
    roles = [_role(call, name) for name in ROLES if wanted in {None, name}]
    return Answer(RolesAnswer(roles=roles, links=list_links(call)))


async def show_role(call: Call) -> Answer:
    """Show a role.

    Raises:
        NotFoundError: there is no such role.
    """
    name = call.key("role_id")
    if name not in ROLES:
        raise NotFoundError("role", name)
    return Answer(RoleAnswer(role=_role(call, name)))


def _person(call: Call) -> Person:
    name = call.key("user_id")
    if name != call.identity.user_id:
        only_admins(call)
    person = call.parts.directory.find_user(name)
    if person is None:
        raise NotFoundError("user", name)
    return person


def _projects_answer(call: Call, names: list[str]) -> Answer:
    views = [_project(call, name) for name in names]
    return Answer(ProjectsAnswer(projects=views, links=list_links(call)))


def _user(call: Call, person: Person) -> UserView:
    return UserView(
        id=person.name,
        name=person.name,
        domain_id=DOMAIN,
        default_project_id=person.project_id,
        enabled=True,
        links=self_link(call, "users", person.name),
    )


def _project(call: Call, name: str) -> ProjectView:
    # Clients parse all of Keystone's fields, so those without a meaning here have its defaults.
    return ProjectView(
        id=name,
        name=name,
        domain_id=DOMAIN,
        parent_id=DOMAIN,
        description="",
        enabled=True,
        is_domain=False,
        tags=[],
        links=self_link(call, "projects", name),
    )


def _domain(call: Call) -> DomainFullView:
    return DomainFullView(
        id=DOMAIN,
        name=DOMAIN_NAME,
        description="The only domain.",
        enabled=True,
        links=self_link(call, "domains", DOMAIN),
    )


def _role(call: Call, name: str) -> RoleFullView:
    return RoleFullView(id=name, name=name, domain_id=None, links=self_link(call, "roles", name))
