"""The projects that may use a private flavor."""

from dataclasses import dataclass, replace
from typing import Final

PROJECTS_MAX: Final = 10_000
"""Maximum number of projects with access to one flavor."""


@dataclass(frozen=True, slots=True)
class FlavorAccess:
    """The projects with access to a flavor, sorted; they matter only while the flavor is private.

    They are not part of the flavor, because each instance has a copy of its flavor.
    """

    flavor_id: str
    projects: tuple[str, ...] = ()

    def with_project(self, project_id: str) -> "FlavorAccess":
        """Return a copy with one more project."""
        return replace(self, projects=tuple(sorted({*self.projects, project_id})))

    def without(self, project_id: str) -> "FlavorAccess":
        """Return a copy without the given project."""
        return replace(self, projects=tuple(one for one in self.projects if one != project_id))
