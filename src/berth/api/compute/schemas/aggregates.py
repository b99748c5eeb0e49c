"""Request and response bodies for aggregates."""

import re
from typing import Annotated

from berth.api.codec import UNSET, Meta, Model, Name, UnsetType, View
from berth.api.values import check_edges
from berth.domain.errors import InvalidInputError

# An availability zone has no colon in its name, because requests name a host as `ZONE:HOST`. The
# lookahead forbids a final newline, which `$` alone would allow.
ZoneName = Annotated[
    str, Meta(min_length=1, max_length=255, pattern="^[^:\\x00-\\x1f\\x7f]+$(?!\\n)")
]
_ZONE_NAME = re.compile("[^:\\x00-\\x1f\\x7f]{1,255}")
MetadataKey = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[a-zA-Z0-9_:. -]+$")]
MetadataValue = Annotated[str, Meta(max_length=255)]


def check_zone_name(name: str | None, field: str) -> None:
    """Refuse the name of an availability zone that requests could not contain.

    Args:
        name: the name; None stands for no availability zone.
        field: the field that the error names.

    Raises:
        InvalidInputError: the name is empty, too long, begins or ends with white space, or contains
            a colon or a control character.
    """
    if name is None:
        return
    if name == "":
        raise InvalidInputError(field, "must not be empty; use null to remove the zone")
    if _ZONE_NAME.fullmatch(name) is None:
        raise InvalidInputError(
            field,
            f"{name[:80]!r} must have at most 255 characters, none of which is a colon or a "
            "control character",
        )
    check_edges(name, field)


class NewAggregate(Model):
    """The aggregate to create."""

    name: Name
    availability_zone: ZoneName | None = None


class NewAggregateBody(Model):
    """Body of POST /os-aggregates."""

    aggregate: NewAggregate


class AggregateChange(Model):
    """The fields of an aggregate to update; a null availability zone removes the current one."""

    name: Name | UnsetType = UNSET
    availability_zone: ZoneName | UnsetType | None = UNSET


class AggregateChangeBody(Model):
    """Body of PUT /os-aggregates/{aggregate_id}."""

    aggregate: AggregateChange


class HostOfAggregate(Model):
    """The host to add or remove."""

    host: Name


class MetadataOfAggregate(Model):
    """The metadata items to set; null removes an item."""

    metadata: Annotated[dict[MetadataKey, MetadataValue | None], Meta(max_length=128)]


class AggregateAction(Model):
    """Body of POST /os-aggregates/{aggregate_id}/action; it must have exactly one field."""

    add_host: HostOfAggregate | UnsetType = UNSET
    remove_host: HostOfAggregate | UnsetType = UNSET
    set_metadata: MetadataOfAggregate | UnsetType = UNSET


class AggregateView(View):
    """An aggregate; `hosts` and `metadata` are missing in the response to its creation."""

    id: int
    name: str
    availability_zone: str | None
    created_at: str
    updated_at: str | None
    deleted: bool
    deleted_at: str | None
    hosts: list[str] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    uuid: str | UnsetType = UNSET


class AggregateAnswer(View):
    """The response with one aggregate."""

    aggregate: AggregateView


class AggregatesAnswer(View):
    """The response with all aggregates."""

    aggregates: list[AggregateView]
