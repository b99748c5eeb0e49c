"""Compute services as the compute API writes them."""

from enum import StrEnum
from typing import Annotated

from berth.api.codec import UNSET, Meta, Model, Name, UnsetType, View
from berth.api.values import Flag

Reason = Annotated[str, Meta(min_length=1, max_length=255)]


class ServiceStatus(StrEnum):
    """Whether a service gets new servers."""

    ENABLED = "enabled"
    DISABLED = "disabled"


class ServicesQuery(Model):
    """Which services to list."""

    host: str | None = None
    binary: str | None = None


class ServiceChange(Model):
    """Body of PUT /os-services/{service_id}; `host` and `binary` before 2.53 only."""

    status: ServiceStatus | UnsetType = UNSET
    disabled_reason: Reason | UnsetType = UNSET
    forced_down: Flag | UnsetType = UNSET
    host: Name | UnsetType = UNSET
    binary: Name | UnsetType = UNSET


class ServiceView(View):
    """A compute service; the old forms of the update answer with a part of it."""

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
    """One service."""

    service: ServiceView


class ServicesAnswer(View):
    """All services."""

    services: list[ServiceView]
