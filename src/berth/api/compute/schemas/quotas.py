"""Request and response bodies for quotas; the limit -1 means unlimited."""

from typing import Annotated

from berth.api.codec import UNSET, Meta, Model, UnsetType, View
from berth.api.values import COUNT_MAX, Flag

QuotaLimit = (
    Annotated[int, Meta(ge=-1, le=COUNT_MAX)]
    | Annotated[str, Meta(pattern="^-?[0-9]+$", min_length=1, max_length=10)]
)
"""A limit as an integer or, as in Nova, as a string that contains the integer."""


class QuotaView(View):
    """The limits of a project or class; the response to an update has no id."""

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
    """The response with the quotas of a project."""

    quota_set: QuotaView


class QuotaClassAnswer(View):
    """The response with the quotas of a class."""

    quota_class_set: QuotaView


class QuotaUsage(View):
    """A limit, and the amount of it that is used."""

    limit: int
    in_use: int
    # The ledger checks quotas in the transaction that uses them, so Berth reserves nothing.
    reserved: int = 0


class QuotaUsagesView(View):
    """The limits of a project with their usage."""

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
    """The response with the quotas of a project and their usage."""

    quota_set: QuotaUsagesView


class QuotaQuery(Model):
    """The user whose quotas to change; Berth has no quotas per user and refuses any value."""

    user_id: str | None = None


class NewLimits(Model):
    """The limits to set; a limit that is fixed is accepted only with its fixed value."""

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
    """The limits to set for a project; `force` allows limits below the current usage."""

    force: Flag = False


class NewQuotaBody(Model):
    """Body of PUT /os-quota-sets/{project_id}."""

    quota_set: NewQuota


class NewQuotaClassBody(Model):
    """Body of PUT /os-quota-class-sets/{class_id}."""

    quota_class_set: NewLimits
