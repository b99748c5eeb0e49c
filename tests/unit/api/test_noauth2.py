"""The mode `noauth2`, which requires a token and trusts it."""

import pytest

from berth.api.auth.authentication import TOKEN_CHALLENGE, Credentials, Identity, NoAuth, NoAuth2
from berth.api.errors import HttpError


async def identity(token: str | None, **said: str) -> Identity:
    """Return the identity for this token and these headers."""
    return await NoAuth2().identify(Credentials(None, token, "", **said))


@pytest.mark.parametrize(
    ("token", "said", "expected"),
    [
        ("admin", {}, ("admin", "admin", {"admin"})),
        ("admin:ops", {}, ("admin", "ops", {"admin"})),
        ("bob", {}, ("bob", "bob", set())),
        ("bob:web", {}, ("bob", "web", set())),
        ("bob:web", {"project": "other"}, ("bob", "other", set())),
        ("bob", {"roles": "Admin, reader,"}, ("bob", "bob", {"admin", "reader"})),
        ("admin", {"roles": ""}, ("admin", "admin", set())),
        ("admin", {"roles": "member"}, ("admin", "admin", {"member"})),
    ],
)
async def test_a_token_and_headers_say_who_calls(
    token: str, said: dict[str, str], expected: tuple[str, str, set[str]]
) -> None:
    """Headers take precedence over the token, and given roles over the user name."""
    found = await identity(token, **said)
    user, project, roles = expected
    assert (found.user_id, found.project_id) == (user, project)
    assert found.roles == frozenset(roles)
    assert found.is_admin is ("admin" in roles)
    assert not found.is_system


async def test_the_scope_of_the_system_is_told() -> None:
    """The header of a system scope is in the identity."""
    assert (await identity("admin", system_scope="all")).is_system


@pytest.mark.parametrize("token", [None, "", ":", ":web", "a\nb", "x" * 256, "bob:" + "x" * 256])
async def test_without_a_token_nobody_calls(token: str | None) -> None:
    """A missing or invalid token gets 401."""
    with pytest.raises(HttpError) as caught:
        await identity(token)
    assert caught.value.status == 401
    assert "X-Auth-Token" in caught.value.message
    assert caught.value.headers == TOKEN_CHALLENGE


@pytest.mark.parametrize("project", ["a\nb", "x" * 256])
async def test_an_invalid_project_is_blamed_on_its_own_header(project: str) -> None:
    """An invalid project of the header X-Project-Id gets 401, which does not blame the token."""
    with pytest.raises(HttpError, match="X-Project-Id") as caught:
        await identity("bob:web", project=project)
    assert (caught.value.status, caught.value.headers) == (401, TOKEN_CHALLENGE)
    assert "X-Auth-Token" not in caught.value.message


async def test_elsewhere_headers_give_no_roles() -> None:
    """The mode `noauth` ignores these headers, since any client can send them."""
    said = Credentials(None, "bob", "", roles="admin", project="ops", system_scope="all")
    assert await NoAuth().identify(said) == Identity("bob", "bob", is_admin=False)
