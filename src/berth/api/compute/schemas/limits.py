"""Limits and quotas as the compute API writes them; -1 is no limit."""

from berth.api.codec import UNSET, Model, UnsetType, View


class LimitsQuery(Model):
    """Whose limits; another project than the own is for administrators."""

    tenant_id: str | None = None


class AbsoluteLimits(
    View,
    rename={
        "server_metadata_max": "maxServerMeta",
        "server_groups_max": "maxServerGroups",
        "group_members_max": "maxServerGroupMembers",
        "cores_max": "maxTotalCores",
        "instances_max": "maxTotalInstances",
        "keypairs_max": "maxTotalKeypairs",
        "ram_max": "maxTotalRAMSize",
        "cores_used": "totalCoresUsed",
        "instances_used": "totalInstancesUsed",
        "ram_used": "totalRAMUsed",
        "server_groups_used": "totalServerGroupsUsed",
    },
):
    """What a project may have and has; memory in MiB. Servers count that hold room."""

    server_metadata_max: int
    server_groups_max: int
    group_members_max: int
    cores_max: int
    instances_max: int
    keypairs_max: int
    ram_max: int
    cores_used: int
    instances_used: int
    ram_used: int
    server_groups_used: int


class LimitsView(View):
    """Limits: of rates there are none."""

    rate: list[str]
    absolute: AbsoluteLimits


class LimitsAnswer(View):
    """The limits of a project."""

    limits: LimitsView


class QuotaView(View):
    """What a project may have of each; the id is left out of what another project may copy."""

    instances: int
    cores: int
    ram: int
    key_pairs: int
    metadata_items: int
    server_groups: int
    server_group_members: int
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
    instances: QuotaUsage
    cores: QuotaUsage
    ram: QuotaUsage
    key_pairs: QuotaUsage
    metadata_items: QuotaUsage
    server_groups: QuotaUsage
    server_group_members: QuotaUsage


class QuotaUsagesAnswer(View):
    """The quotas of a project, with what is used."""

    quota_set: QuotaUsagesView
