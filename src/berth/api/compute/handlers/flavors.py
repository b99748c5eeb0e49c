"""Handlers for flavors and their extra specs."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from berth.api.codec import UNSET, UnsetType, encode_text
from berth.api.compute.schemas.flavors import (
    FlavorAccessAnswer,
    FlavorAccessLine,
    FlavorAction,
    FlavorAnswer,
    FlavorChangeBody,
    FlavorLine,
    FlavorLinesAnswer,
    FlavorsAnswer,
    FlavorsQuery,
    FlavorView,
    NewFlavorBody,
    OneSpec,
    SpecsAnswer,
    SpecsBody,
)
from berth.api.errors import HttpError
from berth.api.links import Link, Linker, limit_of, linker_of, next_page, page_of
from berth.api.microversion import Version
from berth.api.regex import matcher_of
from berth.api.routing import STRICTER, Answer, Call
from berth.api.values import check_edges, flag, whole
from berth.domain.compute.flavor import Flavor
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError

# Microversions: from 2.7 on, a public flavor has no access list to change; 2.55 adds `description`;
# 2.61 adds `extra_specs`; from 2.75 on, `swap` is 0 instead of an empty string for a flavor without
# swap; 2.102 removes `rxtx_factor` and `disabled`, and adds the filter `name`.
_PRIVATE_ONLY = (2, 7)
_DESCRIPTION = (2, 55)
_EXTRA_SPECS = (2, 61)
_SWAP_IS_A_NUMBER = (2, 75)
_FEWER_FIELDS = (2, 102)
# Attributes of `Flavor` by the values of `sort_key`, which are columns of Nova's database.
_SORT_KEYS: Final[Mapping[str, str]] = {
    "flavorid": "flavor_id",
    "id": "flavor_id",
    "name": "name",
    "description": "description",
    "memory_mb": "memory_mb",
    "vcpus": "vcpus",
    "root_gb": "root_gb",
    "ephemeral_gb": "ephemeral_gb",
    "swap": "swap_mb",
    "rxtx_factor": "rxtx_factor",
    "is_public": "is_public",
    "disabled": "disabled",
}
_SORT_DIRS: Final = frozenset({"asc", "desc"})


async def list_flavors(call: Call) -> Answer:
    """List flavors with id, name and links, and from microversion 2.55 on with descriptions."""
    flavors, links = await _page(call)
    linker = linker_of(call)
    lines = [
        FlavorLine(
            id=flavor.flavor_id,
            name=flavor.name,
            links=linker.of("flavors", flavor.flavor_id),
            description=flavor.description if call.version >= _DESCRIPTION else UNSET,
        )
        for flavor in flavors
    ]
    return Answer(FlavorLinesAnswer(flavors=lines, flavors_links=links))


async def list_flavors_in_detail(call: Call) -> Answer:
    """List flavors with all fields."""
    flavors, links = await _page(call)
    linker = linker_of(call)
    views = [flavor_view(flavor, linker, call.version) for flavor in flavors]
    return Answer(FlavorsAnswer(flavors=views, flavors_links=links))


async def show_flavor(call: Call) -> Answer:
    """Show a flavor with all fields.

    Raises:
        NotFoundError: the flavor does not exist, or it is private and the caller has no access.
    """
    flavor = await visible_flavor(call)
    return Answer(FlavorAnswer(flavor=flavor_view(flavor, linker_of(call), call.version)))


async def create_flavor(call: Call) -> Answer:
    """Create a flavor.

    Raises:
        InvalidInputError: a field is invalid, or the microversion does not have it.
        ConflictError: the id or the name is taken.
    """
    new = call.body(NewFlavorBody).flavor
    check_edges(new.name, "flavor.name")
    if new.description is not UNSET and call.version < _DESCRIPTION:
        raise InvalidInputError("flavor.description", "requires microversion 2.55 or later")
    if new.rxtx_factor is not UNSET and call.version >= _FEWER_FIELDS:
        raise InvalidInputError("flavor.rxtx_factor", "was removed in 2.102; leave it out")
    flavor = Flavor(
        flavor_id=call.parts.ids.uuid() if new.id is None else str(new.id),
        name=new.name,
        vcpus=whole(new.vcpus, "flavor.vcpus", low=1),
        memory_mb=whole(new.ram, "flavor.ram", low=1),
        root_gb=whole(new.disk, "flavor.disk"),
        ephemeral_gb=whole(new.ephemeral, "flavor.OS-FLV-EXT-DATA:ephemeral"),
        swap_mb=whole(new.swap, "flavor.swap"),
        is_public=flag(new.is_public, "flavor.os-flavor-access:is_public"),
        rxtx_factor=1.0 if new.rxtx_factor is UNSET else _factor(new.rxtx_factor),
        description=None if new.description is UNSET else new.description,
    )
    await call.parts.flavors.create(flavor)
    return Answer(FlavorAnswer(flavor=flavor_view(flavor, linker_of(call), call.version)))


async def update_flavor(call: Call) -> Answer:
    """Update the description of a flavor.

    Raises:
        NotFoundError: there is no such flavor.
        ConflictError: every attempt lost a race against another change.
    """
    change = call.body(FlavorChangeBody).flavor
    flavor = await call.parts.flavors.set_description(call.key("flavor_id"), change.description)
    return Answer(FlavorAnswer(flavor=flavor_view(flavor, linker_of(call), call.version)))


async def delete_flavor(call: Call) -> Answer:
    """Delete a flavor.

    Raises:
        NotFoundError: there is no such flavor.
        ConflictError: every attempt lost a race against another change.
    """
    await call.parts.flavors.delete(call.key("flavor_id"))
    return Answer()


async def visible_flavor(call: Call) -> Flavor:
    """Return the flavor that the path names.

    Raises:
        NotFoundError: the flavor does not exist, or it is private and the caller has no access.
    """
    flavor = await call.parts.flavors.get(call.key("flavor_id"))
    # A 403 would reveal that a private flavor exists, so the response is 404.
    if not await call.parts.flavors.may_use(flavor, call.project_id):
        raise NotFoundError("flavor", flavor.flavor_id)
    return flavor


def flavor_view(flavor: Flavor, linker: Linker, version: Version) -> FlavorView:
    """Return a flavor with all fields that it has in the given microversion."""
    return FlavorView(
        id=flavor.flavor_id,
        name=flavor.name,
        ram=flavor.memory_mb,
        disk=flavor.root_gb,
        vcpus=flavor.vcpus,
        swap=flavor.swap_mb or (0 if version >= _SWAP_IS_A_NUMBER else ""),
        ephemeral=flavor.ephemeral_gb,
        disabled=flavor.disabled if version < _FEWER_FIELDS else UNSET,
        is_public=flavor.is_public,
        rxtx_factor=flavor.rxtx_factor if version < _FEWER_FIELDS else UNSET,
        links=linker.of("flavors", flavor.flavor_id),
        description=flavor.description if version >= _DESCRIPTION else UNSET,
        extra_specs=dict(flavor.extra_specs) if version >= _EXTRA_SPECS else UNSET,
    )


async def _page(call: Call) -> tuple[Sequence[Flavor], tuple[Link, ...] | UnsetType]:
    query = call.query(FlavorsQuery)
    public = _public(call, query.is_public)
    # As in Nova, the private flavors of the caller's project are among the public ones.
    own: frozenset[str] = frozenset()
    if public:
        own = await call.parts.flavors.usable_by(call.identity.project_id)
    matches = None
    if query.name is not None and call.version >= _FEWER_FIELDS:
        matches = matcher_of(query.name, "name")
    elif query.name is not None and call.version >= STRICTER:
        raise InvalidInputError("name", "requires microversion 2.102 or later")
    flavors = [
        flavor
        for flavor in await call.parts.flavors.all()
        if public in {None, flavor.is_public or flavor.flavor_id in own}
        and (matches is None or matches(flavor.name))
        and flavor.memory_mb >= (query.min_ram or 0)
        and flavor.root_gb >= (query.min_disk or 0)
    ]
    if query.sort_key == "rxtx_factor" and call.version >= _FEWER_FIELDS:
        raise InvalidInputError("sort_key", "must not be rxtx_factor, which 2.102 removed")
    flavors = _sorted(flavors, query.sort_key, query.sort_dir)
    limit = limit_of(call, query.limit)
    keys = [flavor.flavor_id for flavor in flavors]
    page = page_of(flavors, keys, query.marker, limit)
    if not page or page[-1].flavor_id == keys[-1]:
        return page, UNSET
    return page, next_page(call, page[-1].flavor_id, limit)


def _sorted(flavors: list[Flavor], key: str, direction: str) -> list[Flavor]:
    """Return flavors sorted by a key, and by id if their values are equal, in the given direction.

    Raises:
        InvalidInputError: the key or the direction is unknown.
    """
    if key not in _SORT_KEYS:
        raise InvalidInputError(
            "sort_key", f"{key[:80]!r} is unknown; use one of {', '.join(_SORT_KEYS)}"
        )
    if direction not in _SORT_DIRS:
        raise InvalidInputError("sort_dir", f"must be asc or desc, not {direction[:80]!r}")
    name = _SORT_KEYS[key]
    # The id makes the order total. Without it, a page could skip or repeat flavors.
    return sorted(
        flavors,
        key=lambda flavor: (_comparable(getattr(flavor, name)), flavor.flavor_id),
        reverse=direction == "desc",
    )


def _comparable(value: str | float | None) -> str | float:
    return "" if value is None else value


def _public(call: Call, requested: str | None) -> bool | None:
    """Return the flavors to list: public ones (True), private ones (False) or both (None).

    Callers other than administrators list only public flavors and those of their project. As in
    Nova, the value `none` means both.
    """
    if requested is None or not call.identity.is_admin:
        return True
    if requested.strip().lower() == "none":
        return None
    return flag(requested, "is_public")


def _factor(value: float | str) -> float:
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not (math.isfinite(factor) and factor > 0):
        raise InvalidInputError(
            "flavor.rxtx_factor",
            f"must be a finite number greater than 0, not {f'{value!r}'[:80]}",
        )
    return factor


async def list_access(call: Call) -> Answer:
    """List the projects that may use a private flavor.

    Raises:
        NotFoundError: there is no such flavor.
        HttpError: 404 when the flavor is public.
    """
    flavor = await call.parts.flavors.get(call.key("flavor_id"))
    if flavor.is_public:
        raise HttpError(404, "Access list not available for public flavors.")
    projects = await call.parts.flavors.projects_of(flavor.flavor_id)
    return _access(flavor.flavor_id, projects)


async def act_on_flavor(call: Call) -> Answer:
    """Give a project access to a private flavor, or withdraw it.

    Raises:
        NotFoundError: there is no such flavor, or the project to remove has no access.
        InvalidInputError: the body does not name exactly one action, or too many projects have
            access.
        ConflictError: the flavor is public, from microversion 2.7 on, or the project already has
            access.
    """
    action, flavor_id = call.body(FlavorAction), call.key("flavor_id")
    flavors = call.parts.flavors
    if action.add is not UNSET:
        if action.remove is not UNSET:
            raise InvalidInputError(
                "body", "must contain only one of addTenantAccess and removeTenantAccess"
            )
        if call.version >= _PRIVATE_ONLY and (await flavors.get(flavor_id)).is_public:
            raise ConflictError("Can not add access to a public flavor.")
        return _access(flavor_id, await flavors.add_access(flavor_id, action.add.tenant))
    if action.remove is UNSET:
        raise InvalidInputError("body", "must contain addTenantAccess or removeTenantAccess")
    return _access(flavor_id, await flavors.remove_access(flavor_id, action.remove.tenant))


def _access(flavor_id: str, projects: Sequence[str]) -> Answer:
    lines = [FlavorAccessLine(flavor_id=flavor_id, tenant_id=one) for one in projects]
    return Answer(FlavorAccessAnswer(flavor_access=lines))


async def list_extra_specs(call: Call) -> Answer:
    """List the extra specs of a flavor.

    Raises:
        NotFoundError: the flavor does not exist, or it is private and the caller has no access.
    """
    flavor = await visible_flavor(call)
    return Answer(SpecsAnswer(extra_specs=dict(flavor.extra_specs)))


async def create_extra_specs(call: Call) -> Answer:
    """Create or overwrite extra specs of a flavor.

    Raises:
        InvalidInputError: a spec is invalid, or there are too many.
        NotFoundError: there is no such flavor.
        ConflictError: every attempt lost a race against another change.
    """
    specs = _texts(call.body(SpecsBody).extra_specs)
    await call.parts.flavors.set_extra_specs(call.key("flavor_id"), specs)
    return Answer(SpecsAnswer(extra_specs=specs))


async def show_extra_spec(call: Call) -> Answer:
    """Show one extra spec of a flavor.

    Raises:
        NotFoundError: the caller sees no such flavor, or the flavor does not have the spec.
    """
    flavor = await visible_flavor(call)
    key = call.key("key")
    if key not in flavor.extra_specs:
        raise NotFoundError("extra spec", key)
    return Answer({key: flavor.extra_specs[key]})


async def update_extra_spec(call: Call) -> Answer:
    """Create or overwrite one extra spec of a flavor.

    Raises:
        NotFoundError: there is no such flavor.
        InvalidInputError: the body has another key than the path, or the value is invalid.
    """
    specs = _texts(call.body(OneSpec))
    key = call.key("key")
    if key not in specs:
        raise InvalidInputError("body", f"must contain only the key {key[:80]!r}, as in the path")
    await call.parts.flavors.set_extra_specs(call.key("flavor_id"), specs)
    return Answer(specs)


async def delete_extra_spec(call: Call) -> Answer:
    """Delete one extra spec of a flavor.

    Raises:
        NotFoundError: there is no such flavor, or it does not have the spec.
        ConflictError: every attempt lost a race against another change.
    """
    await call.parts.flavors.delete_extra_spec(call.key("flavor_id"), call.key("key"))
    return Answer()


def _texts(specs: dict[str, str | int | float]) -> dict[str, str]:
    """Return the specs with numbers converted to strings, because specs are stored as strings."""
    return {
        key: value if isinstance(value, str) else encode_text(value) for key, value in specs.items()
    }
