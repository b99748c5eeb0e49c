"""Adds the dependencies of the distribution, one of them with the version of this checkout."""

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SameVersion(MetadataHookInterface):
    """Requires the base distribution in the same version."""

    def update(self, metadata: dict[str, object]) -> None:
        """Set the dependencies in `metadata`, whose version hatchling has read already."""
        metadata["dependencies"] = [
            f"berth-scheduler=={metadata['version']}",
            "hypothesis>=6.130",
            "pytest>=8.3",
            "pytest-asyncio>=0.26",
        ]
