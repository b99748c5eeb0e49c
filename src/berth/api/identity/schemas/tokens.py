"""Asking for tokens, and what tokens say."""

from typing import Annotated, Literal

from berth.api.codec import UNSET, Meta, Model, UnsetType, View

Text = Annotated[str, Meta(max_length=255)]
Secret = Annotated[str, Meta(max_length=4096)]


class DomainRef(Model):
    """A domain by id or name; there is only the default one."""

    id: Text | UnsetType | None = UNSET
    name: Text | UnsetType | None = UNSET


class UserLogin(Model):
    """A user by id or name, which are the same, and the password."""

    password: Secret
    id: Text | UnsetType | None = UNSET
    name: Text | UnsetType | None = UNSET
    domain: DomainRef | UnsetType | None = UNSET


class PasswordLogin(Model):
    """The method `password`."""

    user: UserLogin


class TokenLogin(Model):
    """The method `token`."""

    id: Secret


class IdentityChoice(Model):
    """Who asks for a token, and by which of the two methods that is shown."""

    methods: Annotated[list[Text], Meta(min_length=1, max_length=8)]
    password: PasswordLogin | UnsetType = UNSET
    token: TokenLogin | UnsetType = UNSET


class ProjectRef(Model):
    """A project by id or name, which are the same."""

    id: Text | UnsetType | None = UNSET
    name: Text | UnsetType | None = UNSET
    domain: DomainRef | UnsetType | None = UNSET


class ScopeChoice(Model):
    """What a token is for: a project, or nothing in particular; the other scopes are refused."""

    project: ProjectRef | UnsetType = UNSET
    domain: DomainRef | UnsetType = UNSET
    system: dict[str, bool] | UnsetType = UNSET
    unscoped: dict[str, object] | UnsetType = UNSET


class Login(Model):
    """Who asks, and what for. Without a scope it is the user's own project."""

    identity: IdentityChoice
    scope: ScopeChoice | Literal["unscoped"] | UnsetType = UNSET


class LoginBody(Model):
    """Body of POST /identity/v3/auth/tokens."""

    auth: Login


class TokensQuery(Model):
    """With `nocatalog` the answer has no catalog."""

    nocatalog: str | None = None


class DomainView(View):
    """A domain in short."""

    id: str
    name: str


class TokenUser(View):
    """Whose a token is."""

    id: str
    name: str
    domain: DomainView
    password_expires_at: None = None


class TokenProject(View):
    """What a token is for."""

    id: str
    name: str
    domain: DomainView


class RoleView(View):
    """A role in short."""

    id: str
    name: str


class EndpointView(View):
    """Where a service is."""

    id: str
    interface: str
    region: str
    region_id: str
    url: str


class ServiceEntry(View):
    """A service of the catalog."""

    id: str
    name: str
    type: str
    endpoints: list[EndpointView]


class TokenView(View):
    """What a token says; without a project it has neither roles nor catalog."""

    methods: list[str]
    user: TokenUser
    audit_ids: list[str]
    issued_at: str
    expires_at: str
    is_domain: bool | UnsetType = UNSET
    project: TokenProject | UnsetType = UNSET
    roles: list[RoleView] | UnsetType = UNSET
    catalog: list[ServiceEntry] | UnsetType = UNSET


class TokenAnswer(View):
    """A token; its text is in the header X-Subject-Token."""

    token: TokenView
