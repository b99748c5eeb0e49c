"""The reader of a Nova cloud through its API and the Placement API."""

from berth.adapters.nova.compute_api import ComputeApi
from berth.adapters.nova.credentials import Credentials
from berth.adapters.nova.placement_api import PlacementApi
from berth.adapters.nova.session import OpenStackSession
from berth.ports.nova import NovaCloud


class NovaApiReader:
    """Reads a Nova cloud through its API and the Placement API; see the port `NovaReader`.

    The reader sends GET requests only, apart from one POST to Keystone for each token.

    Args:
        session: sends the requests.
    """

    def __init__(self, session: OpenStackSession) -> None:
        self._session = session

    @classmethod
    def with_credentials(cls, credentials: Credentials) -> "NovaApiReader":
        """Return a reader with a session of its own."""
        return cls(OpenStackSession(credentials))

    async def read(self) -> NovaCloud:
        """See `NovaReader.read`.

        Nova is read before Placement: a server that is created in between then has allocations
        without a record, which the next import completes, and never a record without allocations.
        """
        compute = await ComputeApi(self._session).read()
        placement = await PlacementApi(self._session).read()
        return NovaCloud(
            source="the compute and Placement APIs",
            hosts=tuple(compute.hosts),
            services=tuple(compute.services),
            providers=tuple(placement.providers),
            resource_classes=tuple(placement.resource_classes),
            traits=tuple(placement.traits),
            aggregates=tuple(compute.aggregates),
            flavors=tuple(compute.flavors),
            flavor_accesses=tuple(compute.flavor_accesses),
            server_groups=tuple(compute.server_groups),
            members=compute.members,
            servers=tuple(compute.servers),
            quotas=tuple(compute.quotas),
            key_rings=tuple(compute.key_rings),
            holdings=tuple(placement.holdings),
            findings=tuple(compute.findings),
        )

    async def close(self) -> None:
        """See `NovaReader.close`."""
        await self._session.close()
