"""Allocation ratios, as the settings of an agent say them."""

from berth.config.settings import AgentSettings
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.services.fleet.allocation_ratios import RatioSettings


def ratio_settings_of(agent: AgentSettings) -> RatioSettings:
    """Return what an operator has set about allocation ratios."""
    return RatioSettings(
        own={
            VCPU: agent.cpu_allocation_ratio,
            MEMORY_MB: agent.ram_allocation_ratio,
            DISK_GB: agent.disk_allocation_ratio,
        },
        initial={
            VCPU: agent.initial_cpu_allocation_ratio,
            MEMORY_MB: agent.initial_ram_allocation_ratio,
            DISK_GB: agent.initial_disk_allocation_ratio,
        },
    )
