"""Query and response bodies for limits; the limit -1 means unlimited."""

from berth.api.codec import UNSET, Model, UnsetType, View


class LimitsQuery(Model):
    """The project whose limits to show, or None for the caller's own."""

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
        "image_metadata_max": "maxImageMeta",
        "files_max": "maxPersonality",
        "file_bytes_max": "maxPersonalitySize",
        "security_groups_max": "maxSecurityGroups",
        "security_rules_max": "maxSecurityGroupRules",
        "floating_ips_max": "maxTotalFloatingIps",
        "floating_ips_used": "totalFloatingIpsUsed",
        "security_groups_used": "totalSecurityGroupsUsed",
    },
):
    """The limits of a project, and its usage by existing servers and groups; memory is in MiB."""

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
    image_metadata_max: int | UnsetType = UNSET
    files_max: int | UnsetType = UNSET
    file_bytes_max: int | UnsetType = UNSET
    security_groups_max: int | UnsetType = UNSET
    security_rules_max: int | UnsetType = UNSET
    floating_ips_max: int | UnsetType = UNSET
    floating_ips_used: int | UnsetType = UNSET
    security_groups_used: int | UnsetType = UNSET


class LimitsView(View):
    """The limits of a project; the list of rate limits is always empty."""

    rate: list[str]
    absolute: AbsoluteLimits


class LimitsAnswer(View):
    """The response with the limits of a project."""

    limits: LimitsView
