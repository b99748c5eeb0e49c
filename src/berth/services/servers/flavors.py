"""Creates, changes and removes flavors."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from berth.domain.compute.flavor import PROJECTS_MAX, Flavor, FlavorAccess
from berth.domain.compute.needs import needs_of
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError
from berth.domain.hardware.hw_specs import check_values
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Add, Put, Remove, Unit
from berth.ports.ledger import Ledger
from berth.services.providers.guarded_saves import save_guarded

_GUARD = "flavors"

# A flavor has at most this many extra specs.
SPECS_MAX = 128


class Flavors:
    """Manages flavors. A guard serializes the changes, so that none is lost."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def create(self, flavor: Flavor) -> Flavor:
        """Store a new flavor and return it.

        Raises:
            InvalidInputError: an extra spec or the disk size is invalid, or there are too many
                extra specs.
            ConflictError: the id or the name is taken, or every attempt lost a race against another
                change.
            UnavailableError: the ledger cannot be reached.
        """
        _check(flavor)

        async def read() -> Unit:
            # Names are unique among all flavors, which only a guard over all of them can ensure.
            for other in await self._ledger.all(Flavor):
                if other.flavor_id == flavor.flavor_id:
                    raise ConflictError(f"flavor with id {flavor.flavor_id} already exists")
                if other.name == flavor.name:
                    raise ConflictError(f"flavor with name {flavor.name} already exists")
            return (Add(flavor),)

        await save_guarded(self._ledger, _GUARD, read)
        return flavor

    async def get(self, flavor_id: str) -> Flavor:
        """Return the flavor with the given id.

        Raises:
            NotFoundError: there is no such flavor.
            UnavailableError: the ledger cannot be reached.
        """
        flavor = await self._ledger.get(Flavor, flavor_id)
        if flavor is None:
            raise NotFoundError("flavor", flavor_id)
        return flavor

    async def all(self) -> list[Flavor]:
        """Return all flavors, ordered by id.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        return await self._ledger.all(Flavor)

    async def delete(self, flavor_id: str) -> None:
        """Remove a flavor; instances keep the copy that they were created with.

        Raises:
            NotFoundError: there is no such flavor.
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """

        async def read() -> Unit:
            await self.get(flavor_id)
            access = await self._ledger.get(FlavorAccess, flavor_id)
            gone = () if access is None else (Remove(Kind.FLAVOR_ACCESS, flavor_id),)
            return (Remove(Kind.FLAVOR, flavor_id), *gone)

        await save_guarded(self._ledger, _GUARD, read)

    async def projects_of(self, flavor_id: str) -> tuple[str, ...]:
        """Return the projects with access to a flavor if it is private, sorted.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        return (await self._access(flavor_id)).projects

    async def usable_by(self, project_id: str) -> frozenset[str]:
        """Return the ids of the flavors to which a project has access, besides the public ones.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        found = await self._ledger.all(FlavorAccess)
        return frozenset(one.flavor_id for one in found if project_id in one.projects)

    async def may_use(self, flavor: Flavor, project_id: str | None) -> bool:
        """Return whether a project may use a flavor; None stands for an administrator.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        # Only private flavors cost a read.
        if flavor.is_public or project_id is None:
            return True
        return project_id in await self.projects_of(flavor.flavor_id)

    async def add_access(self, flavor_id: str, project_id: str) -> tuple[str, ...]:
        """Give a project access to a flavor, and return all projects with access.

        Raises:
            NotFoundError: there is no such flavor.
            InvalidInputError: too many projects have access.
            ConflictError: the project already has access, or every attempt lost a race against
                another change.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: FlavorAccess) -> FlavorAccess:
            if project_id in old.projects:
                raise ConflictError(
                    f"Flavor access already exists for flavor {flavor_id} and project "
                    f"{project_id} combination."
                )
            if len(old.projects) >= PROJECTS_MAX:
                reason = f"{PROJECTS_MAX} projects have access already; use a public flavor"
                raise InvalidInputError("addTenantAccess.tenant", reason)
            return old.with_project(project_id)

        return await self._change_access(flavor_id, change)

    async def remove_access(self, flavor_id: str, project_id: str) -> tuple[str, ...]:
        """Withdraw a project's access to a flavor, and return the projects that still have it.

        Servers of the project keep the flavor.

        Raises:
            NotFoundError: there is no such flavor, or the project has no access to it.
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: FlavorAccess) -> FlavorAccess:
            if project_id not in old.projects:
                raise NotFoundError(f"access to flavor {flavor_id} for project", project_id)
            return old.without(project_id)

        return await self._change_access(flavor_id, change)

    async def _access(self, flavor_id: str) -> FlavorAccess:
        return await self._ledger.get(FlavorAccess, flavor_id) or FlavorAccess(flavor_id)

    async def _change_access(
        self, flavor_id: str, change: Callable[[FlavorAccess], FlavorAccess]
    ) -> tuple[str, ...]:
        changed: list[FlavorAccess] = []

        async def read() -> Unit:
            await self.get(flavor_id)
            changed[:] = [change(await self._access(flavor_id))]
            return (Put(changed[0]),)

        await save_guarded(self._ledger, _GUARD, read)
        return changed[0].projects

    async def set_description(self, flavor_id: str, description: str | None) -> Flavor:
        """Change the description of a flavor, and return the flavor.

        Raises:
            NotFoundError: there is no such flavor.
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """
        return await self._change(flavor_id, lambda old: replace(old, description=description))

    async def set_extra_specs(self, flavor_id: str, specs: Mapping[str, str]) -> Flavor:
        """Add or overwrite extra specs of a flavor, and return the flavor.

        Raises:
            NotFoundError: there is no such flavor.
            InvalidInputError: a spec is invalid, or there are too many.
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: Flavor) -> Flavor:
            return replace(old, extra_specs={**old.extra_specs, **specs})

        return await self._change(flavor_id, change)

    async def delete_extra_spec(self, flavor_id: str, key: str) -> Flavor:
        """Remove one extra spec of a flavor, and return the flavor.

        Raises:
            NotFoundError: there is no such flavor, or it does not have the spec.
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: Flavor) -> Flavor:
            if key not in old.extra_specs:
                raise NotFoundError("extra spec", key)
            left = {name: value for name, value in old.extra_specs.items() if name != key}
            return replace(old, extra_specs=left)

        return await self._change(flavor_id, change)

    async def _change(self, flavor_id: str, change: Callable[[Flavor], Flavor]) -> Flavor:
        changed: list[Flavor] = []

        async def read() -> Unit:
            changed[:] = [change(await self.get(flavor_id))]
            _check(changed[0])
            return (Put(changed[0]),)

        await save_guarded(self._ledger, _GUARD, read)
        return changed[0]


def _check(flavor: Flavor) -> None:
    if len(flavor.extra_specs) > SPECS_MAX:
        raise InvalidInputError(
            "extra_specs",
            f"has {len(flavor.extra_specs)} entries; at most {SPECS_MAX} are allowed",
        )
    check_values(flavor.extra_specs)
    needs_of(flavor)
