"""Handlers for quotas, quota classes and limits."""

from collections.abc import Mapping
from typing import Any, Final

from berth.api.codec import UNSET, UnsetType
from berth.api.compute.schemas.limits import AbsoluteLimits, LimitsAnswer, LimitsQuery, LimitsView
from berth.api.compute.schemas.quotas import (
    NewLimits,
    NewQuotaBody,
    NewQuotaClassBody,
    QuotaAnswer,
    QuotaClassAnswer,
    QuotaQuery,
    QuotaUsage,
    QuotaUsagesAnswer,
    QuotaUsagesView,
    QuotaView,
)
from berth.api.errors import HttpError
from berth.api.microversion import Version
from berth.api.routing import Answer, Call
from berth.api.values import flag
from berth.domain.compute.quota import CLASS_DEFAULT, UNLIMITED, Limits
from berth.domain.errors import InvalidInputError

# Microversion 2.36 removes the limits of networks, and 2.57 those of injected files. Quota classes
# differ: 2.50 removes the limits of networks from them, and adds those of server groups.
NETWORKS_GONE: Final[Version] = (2, 36)
FILES_GONE: Final[Version] = (2, 57)
_CLASS_COMPLETE: Final[Version] = (2, 50)

# The only class that has an effect, as in Nova: its limits are the defaults of all projects.
_CLASS: Final = "default"
# Attributes of `Limits` by the names that clients use.
_FIELDS: Final[Mapping[str, str]] = {
    "instances": "instances",
    "cores": "vcpus",
    "ram": "memory_mb",
    "server_groups": "server_groups",
    "server_group_members": "group_members",
    "key_pairs": "key_pairs",
    "metadata_items": "metadata_items",
    "injected_files": "injected_files",
    "injected_file_content_bytes": "injected_file_content_bytes",
    "injected_file_path_bytes": "injected_file_path_bytes",
}
_NETWORKS: Final = ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")
_FILES: Final = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
# Limits with one value for every project, because Berth has no such resources. Clients read these
# fields, so responses contain them; requests with other values are refused.
_FIXED: Final[Mapping[str, int]] = dict.fromkeys(_NETWORKS, UNLIMITED)


async def show_quotas(call: Call) -> Answer:
    """Show the quotas of a project.

    Raises:
        HttpError: 403 when the caller may not see the project's quotas.
    """
    project = call.key("project_id")
    check_project(call, project)
    limits = _shown(await call.parts.quotas.of_project(project), call.version)
    return Answer(QuotaAnswer(quota_set=QuotaView(id=project, **limits)))


async def show_default_quotas(call: Call) -> Answer:
    """Show the default quotas, which apply to projects without limits of their own.

    Raises:
        HttpError: 403 when the caller may not see the project's quotas.
    """
    project = call.key("project_id")
    check_project(call, project)
    limits = _shown(await _defaults(call), call.version)
    return Answer(QuotaAnswer(quota_set=QuotaView(id=project, **limits)))


async def show_quota_usages(call: Call) -> Answer:
    """Show the quotas of a project and their usage.

    Raises:
        HttpError: 403 when the caller may not see the project's quotas.
    """
    project = call.key("project_id")
    check_project(call, project)
    limits = _shown(await call.parts.quotas.of_project(project), call.version)
    used = await call.parts.quotas.used(project)
    in_use = {
        "instances": used.footprint.instances,
        "cores": used.footprint.vcpus,
        "ram": used.footprint.memory_mb,
        "server_groups": used.server_groups,
    }
    usages = {
        name: QuotaUsage(limit=limit, in_use=in_use.get(name, 0)) for name, limit in limits.items()
    }
    return Answer(QuotaUsagesAnswer(quota_set=QuotaUsagesView(id=project, **usages)))


async def change_quotas(call: Call) -> Answer:
    """Update limits of a project; limits that the body does not name stay as they are.

    Raises:
        InvalidInputError: a limit is out of range or, without `force`, below the project's usage;
            or a field does not exist in this microversion or has a fixed limit.
        ConflictError: every attempt lost a race against another change.
    """
    _refuse_users(call)
    asked = call.body(NewQuotaBody).quota_set
    limits = await call.parts.quotas.change(
        call.key("project_id"),
        _asked(asked, "quota_set", call.version, NETWORKS_GONE),
        force=flag(asked.force, "quota_set.force"),
    )
    return Answer(QuotaAnswer(quota_set=QuotaView(**_shown(limits, call.version))))


async def reset_quotas(call: Call) -> Answer:
    """Delete a project's own limits, so that the defaults apply again.

    Raises:
        ConflictError: every attempt lost a race against another change.
    """
    _refuse_users(call)
    await call.parts.quotas.reset(call.key("project_id"))
    return Answer()


async def show_class_quotas(call: Call) -> Answer:
    """Show the quotas of a class; every class has the default limits."""
    # As in Nova, any class name is accepted.
    limits = _shown_of_class(await _defaults(call), call.version)
    return Answer(QuotaClassAnswer(quota_class_set=QuotaView(id=call.key("class_id"), **limits)))


async def change_class_quotas(call: Call) -> Answer:
    """Update the default limits, which apply to projects without limits of their own.

    Raises:
        InvalidInputError: the class is not `default`, the microversion does not have a limit, or a
            fixed limit would change.
    """
    if call.key("class_id") != _CLASS:
        raise InvalidInputError(
            "class_id",
            f"must be {_CLASS!r}, not {call.key('class_id')[:80]!r}: no other class has an effect",
        )
    asked = call.body(NewQuotaClassBody).quota_class_set
    named = _asked(asked, "quota_class_set", call.version, _CLASS_COMPLETE)
    await call.parts.quotas.change(CLASS_DEFAULT, named)
    limits = _shown_of_class(await _defaults(call), call.version)
    return Answer(QuotaClassAnswer(quota_class_set=QuotaView(**limits)))


def check_project(call: Call, project: str) -> None:
    """Check that the caller may see the quotas of a project.

    Administrators may see those of any project, other callers only those of their own.

    Raises:
        HttpError: 403 when the caller may not see them.
    """
    if project != call.identity.project_id and not call.identity.is_admin:
        raise HttpError(403, "Only administrators may see the quotas of other projects.")


def _refuse_users(call: Call) -> None:
    # If the parameter were ignored, the request would change the limits of the whole project.
    if call.query(QuotaQuery).user_id is not None:
        raise InvalidInputError(
            "user_id", "is not supported, because quotas apply to projects; leave it out"
        )


async def _defaults(call: Call) -> Limits:
    # The defaults are in memory. The follower catches up, so that a client reads what it has just
    # written.
    await call.parts.follower.catch_up()
    return call.parts.quotas.defaults


def _shown(limits: Limits, version: Version) -> dict[str, Any]:
    """Return the limits that exist in the given microversion, by the names that clients use."""
    gone = (*(_NETWORKS if version >= NETWORKS_GONE else ()), *_gone_files(version))
    shown = {**_FIXED, **{name: getattr(limits, field) for name, field in _FIELDS.items()}}
    return {name: limit for name, limit in shown.items() if name not in gone}


def _shown_of_class(limits: Limits, version: Version) -> dict[str, Any]:
    # Classes lose fields in other microversions than projects do, so this starts with all fields,
    # which are those of 2.1.
    all_fields = _shown(limits, min(version, (2, 1)))
    gone: tuple[str, ...] = ("server_groups", "server_group_members")
    if version >= _CLASS_COMPLETE:
        gone = (*_NETWORKS, *_gone_files(version))
    return {name: limit for name, limit in all_fields.items() if name not in gone}


def _gone_files(version: Version) -> tuple[str, ...]:
    return _FILES if version >= FILES_GONE else ()


def _asked(
    asked: NewLimits, where: str, version: Version, networks_gone: Version
) -> dict[str, int]:
    """Return the limits to set, by attribute of `Limits`; fixed limits are left out.

    Raises:
        InvalidInputError: the microversion does not have a field, or a fixed limit would change.
    """
    named: dict[str, int | str | UnsetType] = {
        name: getattr(asked, name) for name in (*_FIELDS, *_FIXED)
    }
    limits: dict[str, int] = {}
    gone = (*(_NETWORKS if version >= networks_gone else ()), *_gone_files(version))
    for name, given in named.items():
        if given is UNSET:
            continue
        if name in gone:
            raise InvalidInputError(
                f"{where}.{name}", "does not exist in this microversion; leave it out"
            )
        limit = int(given)
        if name in _FIELDS:
            limits[_FIELDS[name]] = limit
        # Clients send back the values that they have read, so the fixed value itself is accepted.
        elif limit != _FIXED[name]:
            reason = f"is {_FIXED[name]} for every project and cannot be changed; leave it out"
            raise InvalidInputError(f"{where}.{name}", reason)
    return limits


# Microversion 2.39 removes the limit of image metadata.
_IMAGES_GONE: Version = (2, 39)


async def show_limits(call: Call) -> Answer:
    """Show the limits of a project and its usage.

    Raises:
        HttpError: 403 when the caller may not see the project's quotas.
    """
    project = call.query(LimitsQuery).tenant_id or call.identity.project_id
    check_project(call, project)
    limits = await call.parts.quotas.of_project(project)
    used = await call.parts.quotas.used(project)
    has_networks, has_files = call.version < NETWORKS_GONE, call.version < FILES_GONE
    absolute = AbsoluteLimits(
        server_metadata_max=limits.metadata_items,
        server_groups_max=limits.server_groups,
        group_members_max=limits.group_members,
        cores_max=limits.vcpus,
        instances_max=limits.instances,
        keypairs_max=limits.key_pairs,
        ram_max=limits.memory_mb,
        cores_used=used.footprint.vcpus,
        instances_used=used.footprint.instances,
        ram_used=used.footprint.memory_mb,
        server_groups_used=used.server_groups,
        image_metadata_max=limits.metadata_items if call.version < _IMAGES_GONE else UNSET,
        files_max=limits.injected_files if has_files else UNSET,
        file_bytes_max=limits.injected_file_content_bytes if has_files else UNSET,
        security_groups_max=UNLIMITED if has_networks else UNSET,
        security_rules_max=UNLIMITED if has_networks else UNSET,
        floating_ips_max=UNLIMITED if has_networks else UNSET,
        floating_ips_used=0 if has_networks else UNSET,
        security_groups_used=0 if has_networks else UNSET,
    )
    # Nova no longer has rate limits, but clients still expect the list.
    return Answer(LimitsAnswer(limits=LimitsView(rate=[], absolute=absolute)))
