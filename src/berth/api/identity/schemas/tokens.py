"""Queries, request bodies and response bodies for tokens."""

from typing import Annotated, Literal

from berth.api.codec import UNSET, Meta, Model, UnsetType, View

Text = Annotated[str, Meta(max_length=255)]
# Tokens are longer than names; the cap bounds the work on an unauthenticated request.
Secret = Annotated[str, Meta(max_length=4096)]


class DomainRef(Model):
    """A domain by id or name; only the default domain exists."""

    id: Text | UnsetType | None = UNSET
    name: Text | UnsetType | None = UNSET


class UserLogin(Model):
    """A user by id or name, which are the same, with the password."""

    password: Secret
    id: Text | UnsetType | None = UNSET
    name: Text | UnsetType | None = UNSET
    domain: DomainRef | UnsetType | None = UNSET


class PasswordLogin(Model):
    """The data of the method `password`."""

    user: UserLogin


class TokenLogin(Model):
    """The data of the method `token`."""

    id: Secret


class IdentityChoice(Model):
    """The methods by which a client authenticates, with the data of each."""

    methods: Annotated[list[Text], Meta(min_length=1, max_length=8)]
    password: PasswordLogin | UnsetType = UNSET
    token: TokenLogin | UnsetType = UNSET


class ProjectRef(Model):
    """A project by id or name, which are the same."""

    id: Text | UnsetType | None = UNSET
    name: Text | UnsetType | None = UNSET
    domain: DomainRef | UnsetType | None = UNSET


class ScopeChoice(Model):
    """The scope of a token: a project or none; domain and system scopes are refused."""

    project: ProjectRef | UnsetType = UNSET
    domain: DomainRef | UnsetType = UNSET
    system: dict[str, bool] | UnsetType = UNSET
    unscoped: dict[str, object] | UnsetType = UNSET


class Login(Model):
    """The authentication and the scope of a token, by default the user's own project."""

    identity: IdentityChoice
    scope: ScopeChoice | Literal["unscoped"] | UnsetType = UNSET


class LoginBody(Model):
    """Body of POST /identity/v3/auth/tokens."""

    auth: Login


class TokensQuery(Model):
    """`nocatalog`, with any value, leaves the catalog out of the response."""

    nocatalog: str | None = None


class DomainView(View):
    """A domain by id and name."""

    id: str
    name: str


class TokenUser(View):
    """The user of a token."""

    id: str
    name: str
    domain: DomainView
    password_expires_at: None = None


class TokenProject(View):
    """The project of a token."""

    id: str
    name: str
    domain: DomainView


class RoleView(View):
    """A role by id and name."""

    id: str
    name: str


class EndpointView(View):
    """An endpoint in the catalog: the URL of a service for one interface."""

    id: str
    interface: str
    region: str
    region_id: str
    url: str


class ServiceEntry(View):
    """A service of the catalog with its endpoints."""

    id: str
    name: str
    type: str
    endpoints: list[EndpointView]


class TokenView(View):
    """The content of a token; without a project it has neither roles nor a catalog."""

    methods: list[str]
    user: TokenUser
    audit_ids: list[str]
    issued_at: str
    expires_at: str
    # Like Keystone's, unscoped tokens lack these fields; clients recognise unscoped tokens by that.
    is_domain: bool | UnsetType = UNSET
    project: TokenProject | UnsetType = UNSET
    roles: list[RoleView] | UnsetType = UNSET
    catalog: list[ServiceEntry] | UnsetType = UNSET


class TokenAnswer(View):
    """The content of a token; the token itself is in the header X-Subject-Token."""

    token: TokenView
