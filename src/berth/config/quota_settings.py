"""What projects may have by themselves."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from berth.domain.compute.quota import Limits

QuotaLimit = Annotated[int, Meta(ge=-1, le=2**31 - 1)]


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """What a project may have that has no quota of its own; -1 is no limit."""

    instances: QuotaLimit = -1
    cores: QuotaLimit = -1
    ram_mb: QuotaLimit = -1
    server_groups: QuotaLimit = -1
    server_group_members: QuotaLimit = -1

    @property
    def limits(self) -> Limits:
        """The same, as the services read it."""
        return Limits(
            instances=self.instances,
            vcpus=self.cores,
            memory_mb=self.ram_mb,
            server_groups=self.server_groups,
            group_members=self.server_group_members,
        )
