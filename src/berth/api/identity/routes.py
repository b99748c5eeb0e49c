"""The operations of the Identity API."""

from berth.api.identity.handlers import catalog, directory, tokens, versions
from berth.api.identity.handlers.versions import PREFIX
from berth.api.identity.schemas.directory import (
    CatalogAnswer,
    CatalogServiceAnswer,
    CatalogServicesAnswer,
    CatalogServicesQuery,
    DomainAnswer,
    DomainsAnswer,
    EndpointAnswer,
    EndpointsAnswer,
    EndpointsQuery,
    NameQuery,
    ProjectAnswer,
    ProjectsAnswer,
    RegionAnswer,
    RegionsAnswer,
    RoleAnswer,
    RolesAnswer,
    UserAnswer,
    UsersAnswer,
)
from berth.api.identity.schemas.tokens import LoginBody, TokenAnswer, TokensQuery
from berth.api.identity.schemas.versions import IdentityVersionAnswer, IdentityVersionsAnswer
from berth.api.routing import ApiOperation, Role

__all__ = ["OPERATIONS", "PREFIX"]

_V3 = "/identity/v3"
_TOKENS = f"{_V3}/auth/tokens"
_PUBLIC, _KNOWN = Role.PUBLIC, Role.KNOWN

# As in Keystone, the list of versions has the status 300, and a single version 200. Clients use
# both spellings of a path, with and without the final slash.
_VERSIONS = (
    *(
        ApiOperation(
            "GET",
            path,
            versions.list_identity_versions,
            300,
            role=_PUBLIC,
            answers=IdentityVersionsAnswer,
        )
        for path in ("/identity", "/identity/")
    ),
    *(
        ApiOperation(
            "GET",
            path,
            versions.show_identity_version,
            role=_PUBLIC,
            answers=IdentityVersionAnswer,
        )
        for path in (_V3, f"{_V3}/")
    ),
)

# Creating a token is the only public operation that reads a body. `_KNOWN` operations need no
# project, so that a user without one can show and revoke its tokens.
_AUTH = (
    ApiOperation(
        "POST",
        _TOKENS,
        tokens.create_token,
        201,
        is_audited=False,
        role=_PUBLIC,
        query=TokensQuery,
        body=LoginBody,
        answers=TokenAnswer,
    ),
    ApiOperation(
        "GET", _TOKENS, tokens.show_token, role=_KNOWN, query=TokensQuery, answers=TokenAnswer
    ),
    ApiOperation("DELETE", _TOKENS, tokens.revoke_token, 204, role=_KNOWN),
    ApiOperation("GET", f"{_V3}/auth/catalog", catalog.show_catalog, answers=CatalogAnswer),
    ApiOperation(
        "GET",
        f"{_V3}/auth/projects",
        directory.list_own_projects,
        role=_KNOWN,
        answers=ProjectsAnswer,
    ),
)

_DIRECTORY = (
    ApiOperation("POST", f"{_V3}/users", directory.refuse_person, 403),
    ApiOperation("POST", f"{_V3}/projects", directory.refuse_person, 403),
    ApiOperation("GET", f"{_V3}/users", directory.list_users, query=NameQuery, answers=UsersAnswer),
    ApiOperation(
        "GET", _V3 + "/users/{user_id}", directory.show_user, role=_KNOWN, answers=UserAnswer
    ),
    ApiOperation(
        "GET",
        _V3 + "/users/{user_id}/projects",
        directory.list_user_projects,
        role=_KNOWN,
        answers=ProjectsAnswer,
    ),
    ApiOperation(
        "GET", f"{_V3}/projects", directory.list_projects, query=NameQuery, answers=ProjectsAnswer
    ),
    ApiOperation(
        "GET", _V3 + "/projects/{project_id}", directory.show_project, answers=ProjectAnswer
    ),
    ApiOperation(
        "GET", f"{_V3}/domains", directory.list_domains, query=NameQuery, answers=DomainsAnswer
    ),
    ApiOperation("GET", _V3 + "/domains/{domain_id}", directory.show_domain, answers=DomainAnswer),
    ApiOperation("GET", f"{_V3}/roles", directory.list_roles, query=NameQuery, answers=RolesAnswer),
    ApiOperation("GET", _V3 + "/roles/{role_id}", directory.show_role, answers=RoleAnswer),
)

_SERVICES = (
    ApiOperation(
        "GET",
        f"{_V3}/services",
        catalog.list_catalog_services,
        query=CatalogServicesQuery,
        answers=CatalogServicesAnswer,
    ),
    ApiOperation(
        "GET",
        _V3 + "/services/{service_id}",
        catalog.show_catalog_service,
        answers=CatalogServiceAnswer,
    ),
    ApiOperation(
        "GET",
        f"{_V3}/endpoints",
        catalog.list_endpoints,
        query=EndpointsQuery,
        answers=EndpointsAnswer,
    ),
    ApiOperation(
        "GET", _V3 + "/endpoints/{endpoint_id}", catalog.show_endpoint, answers=EndpointAnswer
    ),
    ApiOperation("GET", f"{_V3}/regions", catalog.list_regions, answers=RegionsAnswer),
    ApiOperation("GET", _V3 + "/regions/{region_id}", catalog.show_region, answers=RegionAnswer),
)

OPERATIONS = (*_VERSIONS, *_AUTH, *_DIRECTORY, *_SERVICES)
