"""Handlers that issue, show and revoke tokens."""

from berth.api.auth.authentication import TOKEN_CHALLENGE
from berth.api.auth.directory import Person, may_work_in
from berth.api.auth.tokens import Token, Tokens
from berth.api.callers import note_login
from berth.api.codec import UNSET, UnsetType
from berth.api.errors import HttpError
from berth.api.identity.handlers.catalog import catalog_of
from berth.api.identity.handlers.directory import ROLES
from berth.api.identity.handlers.finding import DOMAIN, DOMAIN_NAME
from berth.api.identity.schemas.tokens import (
    DomainRef,
    DomainView,
    IdentityChoice,
    LoginBody,
    ProjectRef,
    RoleView,
    ScopeChoice,
    TokenAnswer,
    TokenProject,
    TokensQuery,
    TokenUser,
    TokenView,
    UserLogin,
)
from berth.api.routing import Answer, Call
from berth.api.values import naive_time
from berth.domain.errors import InvalidInputError

_HEADER = b"x-subject-token"
# Responses depend on the caller's token, so caches must not share them.
_VARY = (b"vary", b"X-Auth-Token")
_WHERE = "auth.identity"


async def create_token(call: Call) -> Answer:
    """Create a token in exchange for a user name and password, or for another token.

    Raises:
        HttpError: 401 when the name, the password, the token or the scope is not accepted; 403 when
            this server issues no tokens; 429 after too many failed attempts; 503 when too many
            logins are in progress.
        InvalidInputError: the body is malformed, or names neither a name nor an id.
    """
    tokens = _tokens(call)
    wanted = call.body(LoginBody).auth
    person, before = await _who(call, tokens, wanted.identity)
    project = _project(call, person, wanted.scope)
    # A token that is issued for another one expires with it; otherwise a client could extend its
    # rights forever without the password.
    return _answer(call, tokens.issue(person, project, before))


async def show_token(call: Call) -> Answer:
    """Show the token in X-Subject-Token: the caller's own, or any for administrators.

    Raises:
        InvalidInputError: the header X-Subject-Token is missing.
        HttpError: 403 when this server issues no tokens, or the token belongs to another user and
            the caller is not an administrator; 404 when the token is not valid.
    """
    return _answer(call, _subject(call))


async def revoke_token(call: Call) -> Answer:
    """Revoke the token in X-Subject-Token, and those issued for it.

    Users may revoke their own tokens, and administrators any.

    Raises:
        InvalidInputError: the header X-Subject-Token is missing.
        HttpError: 403 when this server issues or revokes no tokens, or the token belongs to another
            user and the caller is not an administrator; 404 when the token is not valid; 503 when
            too many tokens are revoked.
    """
    _tokens(call).revoke(_subject(call))
    return Answer()


def _tokens(call: Call) -> Tokens:
    tokens = call.parts.tokens
    if tokens is None:
        raise HttpError(
            403, "This server issues no tokens, since its auth.mode is http_basic; use HTTP Basic."
        )
    return tokens


async def _who(call: Call, tokens: Tokens, choice: IdentityChoice) -> tuple[Person, Token | None]:
    # A request must name exactly one method: several would mean multi-factor authentication, which
    # Berth does not have.
    if choice.methods == ["password"] and choice.password is not UNSET:
        user = choice.password.user
        # Failed attempts are counted per address and user.
        client = call.scope.get("client")
        address: str = client[0] if client else ""
        name = _name_of(user)
        note_login(call.scope, name)
        return await tokens.log_in(name, user.password, address), None
    if choice.methods == ["token"] and choice.token is not UNSET:
        before = tokens.read(choice.token.id)
        return before.person, before
    raise HttpError(
        401,
        'auth.identity.methods must be ["password"] or ["token"], and auth.identity must contain '
        "an object of that name.",
        TOKEN_CHALLENGE,
    )


def _name_of(one: UserLogin | ProjectRef) -> str:
    """Return the name of a user or project in a request, or its id, which is the same."""
    where = f"{_WHERE}.password.user" if isinstance(one, UserLogin) else "auth.scope.project"
    _check_domain(one.domain)
    for name in (one.id, one.name):
        if name is not UNSET and name is not None:
            return name
    raise InvalidInputError(where, "must have a name or an id")


def _check_domain(domain: DomainRef | UnsetType | None) -> None:
    if domain is UNSET or domain is None:
        return
    # A request may give the id alone, the name alone in upper or lower case, or both exactly.
    is_given = (domain.id or UNSET, domain.name or UNSET)
    if is_given not in {(DOMAIN, UNSET), (UNSET, DOMAIN_NAME), (DOMAIN, DOMAIN_NAME)} and not (
        domain.id is UNSET and (domain.name or "").lower() == DOMAIN
    ):
        raise HttpError(
            401,
            "The domain is unknown; the only domain has the id default and the name Default.",
            TOKEN_CHALLENGE,
        )


def _project(call: Call, person: Person, scope: ScopeChoice | str | UnsetType) -> str | None:
    # As in Keystone, a request without a scope means the user's default project.
    if scope is UNSET:
        return person.project_id or None
    if isinstance(scope, str) or scope.unscoped is not UNSET:
        return None
    if scope.project is UNSET:
        raise HttpError(
            401,
            "Tokens are not issued for a domain or the system; name a project in auth.scope.",
            TOKEN_CHALLENGE,
        )
    name = _name_of(scope.project)
    # The status is 401 as in Keystone. Unknown projects get the same error, which therefore does
    # not reveal whether a project exists.
    if not may_work_in(call.parts.directory, person, name):
        raise HttpError(
            401,
            f"User {person.name} has no access to project {name[:80]!r}. Choose another one.",
            TOKEN_CHALLENGE,
        )
    return name


def _subject(call: Call) -> Token:
    text = call.header(_HEADER)
    if not text:
        raise InvalidInputError(
            "X-Subject-Token", "is required; set it to the token to show or revoke"
        )
    tokens = _tokens(call)
    # The status is 404, since a 401 would tell the client that its own token in X-Auth-Token is
    # invalid.
    try:
        token = tokens.read(text)
    except HttpError as error:
        raise HttpError(404, f"X-Subject-Token: {error.message}") from error
    if token.person.name != call.identity.user_id and not call.identity.is_admin:
        raise HttpError(403, "Only administrators may show or revoke the tokens of other users.")
    return token


def _answer(call: Call, token: Token) -> Answer:
    body = TokenAnswer(token=_view(call, token))
    return Answer(body, headers=((_HEADER, token.text.encode()), _VARY))


def _view(call: Call, token: Token) -> TokenView:
    grant, domain = token.grant, DomainView(id=DOMAIN, name=DOMAIN_NAME)
    view = TokenView(
        methods=list(grant.methods),
        user=TokenUser(id=grant.user, name=grant.user, domain=domain),
        # As in Keystone: the token's own id, and that of the first token, issued for a password.
        audit_ids=[grant.audit_id, *grant.ancestors[:1]],
        issued_at=f"{naive_time(grant.issued_at_s)}Z",
        expires_at=f"{naive_time(grant.expires_at_s)}Z",
    )
    if grant.project is not None:
        # The roles are those that the user has now, not those at the time of issue.
        names = ROLES if token.person.is_admin else ROLES[1:]
        view.is_domain = False
        view.project = TokenProject(id=grant.project, name=grant.project, domain=domain)
        view.roles = [RoleView(id=name, name=name) for name in names]
        if call.query(TokensQuery).nocatalog is None:
            view.catalog = catalog_of(call)
    return view
