"""Request and response bodies for compute services."""

from enum import StrEnum
from typing import Annotated

from berth.api.codec import UNSET, Meta, Model, Name, UnsetType, View
from berth.api.values import Flag

Reason = Annotated[str, Meta(min_length=1, max_length=255)]


class ServiceStatus(StrEnum):
    """The administrative status of a service; a disabled one accepts no new servers."""

    ENABLED = "enabled"
    DISABLED = "disabled"


class ServicesQuery(Model):
    """The filters of a service list; an empty string matches any service."""

    host: str | None = None
    binary: str | None = None


class ServiceChange(Model):
    """Body of PUT /os-services/{service_id}; microversion 2.53 removes `host` and `binary`."""

    status: ServiceStatus | UnsetType = UNSET
    disabled_reason: Reason | UnsetType = UNSET
    forced_down: Flag | UnsetType = UNSET
    host: Name | UnsetType = UNSET
    binary: Name | UnsetType = UNSET


class ServiceView(View):
    """A compute service; an update before microversion 2.53 returns only some of the fields."""

    binary: str
    host: str
    id: str | int | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    updated_at: str | UnsetType | None = UNSET
    disabled_reason: str | UnsetType | None = UNSET
    forced_down: bool | UnsetType = UNSET


class ServiceAnswer(View):
    """The response with one service."""

    service: ServiceView


class ServicesAnswer(View):
    """The response with the services that match the filters."""

    services: list[ServiceView]
