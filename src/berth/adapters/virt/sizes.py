"""How large guests are."""

import msgspec

from berth.domain.compute.flavor import Flavor


class Size(msgspec.Struct, frozen=True):
    """How large a guest is."""

    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0

    @classmethod
    def of(cls, flavor: Flavor) -> "Size":
        """Return the size that a flavor asks for."""
        return cls(
            max(1, flavor.vcpus),
            max(1, flavor.memory_mb),
            flavor.root_gb,
            flavor.ephemeral_gb,
            flavor.swap_mb,
        )
