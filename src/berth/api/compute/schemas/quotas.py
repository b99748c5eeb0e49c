"""Quotas as the compute API writes them; -1 is no limit."""

from typing import Annotated

from berth.api.codec import UNSET, Meta, Model, UnsetType, View
from berth.api.values import COUNT_MAX, Flag

QuotaLimit = (
    Annotated[int, Meta(ge=-1, le=COUNT_MAX)]
    | Annotated[str, Meta(pattern="^-?[0-9]+$", min_length=1, max_length=10)]
)
"""A limit, or its digits."""


class QuotaView(View):
    """What a project may have of each; no id in what a change is answered with."""

    key_pairs: int
    metadata_items: int
    instances: int
    cores: int
    ram: int
    server_groups: int | UnsetType = UNSET
    server_group_members: int | UnsetType = UNSET
    fixed_ips: int | UnsetType = UNSET
    floating_ips: int | UnsetType = UNSET
    security_groups: int | UnsetType = UNSET
    security_group_rules: int | UnsetType = UNSET
    injected_files: int | UnsetType = UNSET
    injected_file_content_bytes: int | UnsetType = UNSET
    injected_file_path_bytes: int | UnsetType = UNSET
    id: str | UnsetType = UNSET


class QuotaAnswer(View):
    """The quotas of a project."""

    quota_set: QuotaView


class QuotaClassAnswer(View):
    """The quotas of whoever has none of its own."""

    quota_class_set: QuotaView


class QuotaUsage(View):
    """A quota, and what is used of it."""

    limit: int
    in_use: int
    reserved: int = 0


class QuotaUsagesView(View):
    """What a project may have of each, and has."""

    id: str
    key_pairs: QuotaUsage
    metadata_items: QuotaUsage
    instances: QuotaUsage
    cores: QuotaUsage
    ram: QuotaUsage
    server_groups: QuotaUsage | UnsetType = UNSET
    server_group_members: QuotaUsage | UnsetType = UNSET
    fixed_ips: QuotaUsage | UnsetType = UNSET
    floating_ips: QuotaUsage | UnsetType = UNSET
    security_groups: QuotaUsage | UnsetType = UNSET
    security_group_rules: QuotaUsage | UnsetType = UNSET
    injected_files: QuotaUsage | UnsetType = UNSET
    injected_file_content_bytes: QuotaUsage | UnsetType = UNSET
    injected_file_path_bytes: QuotaUsage | UnsetType = UNSET


class QuotaUsagesAnswer(View):
    """The quotas of a project, with what is used."""

    quota_set: QuotaUsagesView


class QuotaQuery(Model):
    """Quotas of single users: Berth has none."""

    user_id: str | None = None


class NewLimits(Model):
    """Limits to set; those that Berth does not count may only be named as they are."""

    instances: QuotaLimit | UnsetType = UNSET
    cores: QuotaLimit | UnsetType = UNSET
    ram: QuotaLimit | UnsetType = UNSET
    server_groups: QuotaLimit | UnsetType = UNSET
    server_group_members: QuotaLimit | UnsetType = UNSET
    key_pairs: QuotaLimit | UnsetType = UNSET
    metadata_items: QuotaLimit | UnsetType = UNSET
    fixed_ips: QuotaLimit | UnsetType = UNSET
    floating_ips: QuotaLimit | UnsetType = UNSET
    security_groups: QuotaLimit | UnsetType = UNSET
    security_group_rules: QuotaLimit | UnsetType = UNSET
    injected_files: QuotaLimit | UnsetType = UNSET
    injected_file_content_bytes: QuotaLimit | UnsetType = UNSET
    injected_file_path_bytes: QuotaLimit | UnsetType = UNSET


class NewQuota(NewLimits):
    """Limits of a project to set; `force` allows what is below what it has."""

    force: Flag = False


class NewQuotaBody(Model):
    """Limits of a project to set."""

    quota_set: NewQuota


class NewQuotaClassBody(Model):
    """Limits to set for whoever has none of its own."""

    quota_class_set: NewLimits
