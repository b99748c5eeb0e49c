"""Limits: what a project may have, and what it has."""

from berth.api.codec import UNSET
from berth.api.compute.handlers.quotas import (
    FILES_GONE,
    KEYPAIRS_MAX,
    METADATA_MAX,
    NETWORKS_GONE,
    check_project,
)
from berth.api.compute.schemas.limits import (
    AbsoluteLimits,
    LimitsAnswer,
    LimitsQuery,
    LimitsView,
)
from berth.api.microversion import Version
from berth.api.routing import Answer, Call
from berth.domain.compute.quota import UNLIMITED

_IMAGES_GONE: Version = (2, 39)


async def show_limits(call: Call) -> Answer:
    """Show what a project may have and has."""
    project = call.query(LimitsQuery).tenant_id or call.identity.project_id
    check_project(call, project)
    limits = await call.parts.quotas.of_project(project)
    used = await call.parts.quotas.used(project)
    has_networks, has_files = call.version < NETWORKS_GONE, call.version < FILES_GONE
    absolute = AbsoluteLimits(
        server_metadata_max=METADATA_MAX,
        server_groups_max=limits.server_groups,
        group_members_max=limits.group_members,
        cores_max=limits.vcpus,
        instances_max=limits.instances,
        keypairs_max=KEYPAIRS_MAX,
        ram_max=limits.memory_mb,
        cores_used=used.footprint.vcpus,
        instances_used=used.footprint.instances,
        ram_used=used.footprint.memory_mb,
        server_groups_used=used.server_groups,
        image_metadata_max=METADATA_MAX if call.version < _IMAGES_GONE else UNSET,
        files_max=0 if has_files else UNSET,
        file_bytes_max=0 if has_files else UNSET,
        security_groups_max=UNLIMITED if has_networks else UNSET,
        security_rules_max=UNLIMITED if has_networks else UNSET,
        floating_ips_max=UNLIMITED if has_networks else UNSET,
        floating_ips_used=0 if has_networks else UNSET,
        security_groups_used=0 if has_networks else UNSET,
    )
    return Answer(LimitsAnswer(limits=LimitsView(rate=[], absolute=absolute)))
