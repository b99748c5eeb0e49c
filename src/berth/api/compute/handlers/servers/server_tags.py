"""Handlers for server tags, which microversion 2.26 adds."""

from dataclasses import replace

from berth.api.compute.handlers.servers.servers import changed, server_of
from berth.api.compute.schemas.server_actions import TagsAnswer, TagsBody
from berth.api.compute.views.servers import Extra, extra_of
from berth.api.errors import HttpError
from berth.api.links import COMPUTE, linker_of, quoted
from berth.api.routing import Answer, Call
from berth.domain.compute.instance import Instance
from berth.domain.errors import InvalidInputError, NotFoundError

# Nova has the same limits.
_TAGS_MAX = 50
_LENGTH_MAX = 60


async def list_tags(call: Call) -> Answer:
    """List the tags of a server.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    return Answer(TagsAnswer(tags=_tags(await server_of(call))))


async def replace_tags(call: Call) -> Answer:
    """Replace all tags of a server.

    Raises:
        NotFoundError: the server does not exist, or the caller may not see it.
        HttpError: 400 when the server would have too many tags.
        ConflictError: other writers changed the record during every attempt.
    """
    given = list(dict.fromkeys(call.body(TagsBody).tags))
    await changed(call, lambda old: _with(old, given))
    return Answer(TagsAnswer(tags=given))


async def delete_tags(call: Call) -> Answer:
    """Delete all tags of a server.

    Raises:
        NotFoundError: the server does not exist, or the caller may not see it.
        ConflictError: other writers changed the record during every attempt.
    """
    await changed(call, lambda old: _with(old, []))
    return Answer()


async def check_tag(call: Call) -> Answer:
    """Respond with 204 if a server has a tag, otherwise with 404.

    Raises:
        NotFoundError: the server does not have the tag, or the caller may not see the server.
    """
    _check_has(await server_of(call), call.key("tag"))
    return Answer()


async def add_tag(call: Call) -> Answer:
    """Add a tag to a server; respond with 201, or with 204 if the server already has the tag.

    Raises:
        NotFoundError: the server does not exist, or the caller may not see it.
        InvalidInputError: the tag is invalid.
        HttpError: 400 when the server would have too many tags.
        ConflictError: other writers changed the record during every attempt.
    """
    tag = call.key("tag")
    _check_form(tag)
    had = tag in _tags(await server_of(call))
    await changed(call, lambda old: _with(old, [*_tags(old), tag]))
    if had:
        return Answer(status=204)
    path = f"/servers/{quoted(call.key('server_id'))}/tags/{quoted(tag)}"
    location = f"{linker_of(call).root}{COMPUTE}{path}".encode()
    return Answer(headers=((b"location", location),), status=201)


async def delete_tag(call: Call) -> Answer:
    """Delete a tag of a server; respond with 404 if the server does not have the tag.

    Raises:
        NotFoundError: the server does not have the tag, or the caller may not see the server.
        ConflictError: other writers changed the record during every attempt.
    """
    tag = call.key("tag")

    # The check is part of the change, which runs again after each conflict.
    def without(old: Instance) -> Instance:
        _check_has(old, tag)
        return _with(old, [one for one in _tags(old) if one != tag])

    await changed(call, without)
    return Answer()


def _tags(instance: Instance) -> list[str]:
    return list(extra_of(instance).get("tags", []))


def _with(old: Instance, tags: list[str]) -> Instance:
    kept = list(dict.fromkeys(tags))
    if len(kept) > _TAGS_MAX:
        raise HttpError(400, f"A server can have at most {_TAGS_MAX} tags.")
    extra: Extra = {**extra_of(old), "tags": kept}
    return replace(old, extra={**extra})


def _check_has(instance: Instance, tag: str) -> None:
    if tag not in _tags(instance):
        raise NotFoundError("tag", tag)


def _check_form(tag: str) -> None:
    """Refuse a tag that is too long or contains a comma, which separates tags in filters."""
    if len(tag) > _LENGTH_MAX or "," in tag:
        raise InvalidInputError(
            "tag",
            f"{tag[:80]!r} must consist of 1 to {_LENGTH_MAX} characters other than commas",
        )
