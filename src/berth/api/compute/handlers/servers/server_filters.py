"""Filters server lists by parameters that the ledger's query does not support."""

from collections.abc import Callable
from typing import Final

from berth.api.compute.handlers.periods import period_of
from berth.api.compute.schemas.servers import ServersQuery
from berth.api.compute.views.servers import ServerWriter, extra_of, power_state
from berth.api.regex import matcher_of
from berth.api.routing import Call
from berth.api.values import flag
from berth.domain.compute.instance import Instance
from berth.domain.compute.lifecycle import status_shown
from berth.domain.errors import InvalidInputError
from berth.services.requests.permissions import LOCKED, vm_state

Accepts = Callable[[Instance], bool]

# Microversions: 2.66 adds `changes-before`; 2.73 adds `locked`; 2.75 refuses unknown parameters.
_STRICT: Final = (2, 75)
_LOCKED: Final = (2, 73)
_BEFORE: Final = (2, 66)
# Nova's filters that Berth does not have. If they were ignored, a caller that expects a few servers
# would get all of them.
_TAKEN: Final = frozenset(
    {
        "access_ip_v4",
        "access_ip_v6",
        "auto_disk_config",
        "config_drive",
        "created_at",
        "description",
        "display_description",
        "display_name",
        "hostname",
        "image_ref",
        "instance_uuid",
        "ip",
        "ip6",
        "kernel_id",
        "launch_index",
        "launched_at",
        "locked_by",
        "node",
        "pinned_availability_zone",
        "progress",
        "ramdisk_id",
        "root_device_name",
        "soft_deleted",
        "terminated_at",
    }
)
_KNOWN = frozenset(ServersQuery.__struct_encode_fields__)


def check_parameters(call: Call) -> None:
    """Refuse filters that Berth lacks, so that a client does not get more servers than it expects.

    Nova's filters that Berth does not have are refused in every microversion; other unknown
    parameters are refused from microversion 2.75 on, and ignored before.

    Raises:
        InvalidInputError: a parameter is refused; the error names it.
    """
    for name, _ in call.query_items():
        if name in _TAKEN:
            raise InvalidInputError(name, "is a filter that Berth does not support; leave it out")
        if name not in _KNOWN and call.version >= _STRICT:
            raise InvalidInputError(name, "is not a parameter of this list; leave it out")


def _state_tests(parameters: ServersQuery) -> list[Accepts]:
    tests: list[Accepts] = []
    if (wanted := parameters.vm_state) is not None:
        tests.append(lambda instance: vm_state(instance.status) == wanted.lower())
    if (task := parameters.task_state) is not None:
        tests.append(lambda instance: instance.task is not None and instance.task.value == task)
    if (power := parameters.power_state) is not None:
        tests.append(lambda instance: power_state(instance.status) == power)
    if (uuid := parameters.uuid) is not None:
        tests.append(lambda instance: instance.uuid == uuid)
    return tests


def _place_tests(call: Call, parameters: ServersQuery) -> list[Accepts]:
    tests: list[Accepts] = []
    if (zone := parameters.availability_zone) is not None:
        writer = ServerWriter(call)
        tests.append(lambda instance: writer.zone(instance) == zone)
    if (key := parameters.key_name) is not None:
        tests.append(lambda instance: extra_of(instance).get("key_name") == key)
    if parameters.locked is not None and call.version >= _LOCKED:
        is_locked = flag(parameters.locked, "locked")
        tests.append(lambda instance: (LOCKED in instance.extra) is is_locked)
    _, before_s = period_of(parameters, is_paged=True, has_end=call.version >= _BEFORE)
    if before_s is not None:
        tests.append(lambda instance: instance.updated_at_s <= before_s)
    return tests


def accepts(call: Call, parameters: ServersQuery, words: set[str] | None) -> Accepts | None:
    """Return a function that tests an instance against the filters that the ledger's query lacks.

    The result is None if the request has no such filters.

    Args:
        call: the request.
        parameters: the query of the request.
        words: the requested statuses as clients see them, in upper case, or None for any.

    Raises:
        InvalidInputError: a parameter is malformed.
    """
    tests: list[Accepts] = []
    if parameters.name:
        tests.append(_named(matcher_of(parameters.name, "name")))
    # The ledger filters by the stored status. The status that clients see also depends on the
    # running task.
    if words is not None:
        tests.append(lambda instance: status_shown(instance.status, instance.task) in words)
    if parameters.image:
        tests.append(
            lambda instance: bool(instance.image) and _image_id(instance) == parameters.image
        )
    if parameters.flavor:
        tests.append(lambda instance: instance.flavor.flavor_id == parameters.flavor)
    if parameters.user_id:
        tests.append(lambda instance: instance.user_id == parameters.user_id)
    tests += [*_state_tests(parameters), *_place_tests(call, parameters), *_tag_tests(parameters)]
    if not tests:
        return None
    return lambda instance: all(test(instance) for test in tests)


def _tag_tests(parameters: ServersQuery) -> list[Accepts]:
    tests: list[Accepts] = []
    if parameters.tags:
        wanted = set(parameters.tags.split(","))
        tests.append(lambda instance: wanted <= _tags(instance))
    if parameters.tags_any:
        some = set(parameters.tags_any.split(","))
        tests.append(lambda instance: bool(some & _tags(instance)))
    if parameters.not_tags:
        together = set(parameters.not_tags.split(","))
        tests.append(lambda instance: not together <= _tags(instance))
    if parameters.not_tags_any:
        unwanted = set(parameters.not_tags_any.split(","))
        tests.append(lambda instance: not unwanted & _tags(instance))
    return tests


def _tags(instance: Instance) -> set[str]:
    return set(extra_of(instance).get("tags", ()))


def _named(matches: Callable[[str], bool]) -> Accepts:
    return lambda instance: matches(instance.name)


def _image_id(instance: Instance) -> str | None:
    return instance.image.image_id if instance.image else None
