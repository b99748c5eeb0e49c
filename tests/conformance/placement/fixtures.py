"""The scene for each fixture that a file of Placement's own suite can name."""

from tests.conformance.placement import fleets
from tests.conformance.placement.scenes import Scene, Settings, uuid_of

_UUIDS = (
    "RP_UUID RP_NAME RP_UUID1 RP_NAME1 RP_UUID2 RP_NAME2 PROJECT_ID ADMIN_PROJECT_ID "
    "SERVICE_PROJECT_ID USER_ID PROJECT_ID_ALT USER_ID_ALT INSTANCE_UUID MIGRATION_UUID "
    "CONSUMER_UUID PARENT_PROVIDER_UUID ALT_PARENT_PROVIDER_UUID"
)
_ALLOCATION_UUIDS = "ALT_USER_ID CONSUMER_0 CONSUMER_ID ALT_CONSUMER_ID ALT_RP_UUID ALT_RP_NAME"

# The environment variables of every scene.
NAMES = {
    "CUSTOM_RES_CLASS": "CUSTOM_IRON_NFV",
    "CUSTOM_RES_CLASS1": "CUSTOM_IRON_NFV1",
    "CUSTOM_RES_CLASS2": "CUSTOM_IRON_NFV2",
} | {name: uuid_of(name) for name in _UUIDS.split()}


def _uuids(names: str) -> dict[str, str]:
    return {name: uuid_of(name) for name in names.split()}


_AGGREGATES = _uuids("AGGA_UUID AGGB_UUID AGGC_UUID")

FIXTURES = {
    "APIFixture": Scene(),
    "AllocationFixture": Scene(
        nodes=fleets.one_used_provider(),
        holders=fleets.one_used_provider_holders(),
        variables=_uuids(_ALLOCATION_UUIDS),
    ),
    "SharedStorageFixture": Scene(nodes=fleets.shared_storage(), variables=_uuids("AGG_UUID")),
    "NUMAAggregateFixture": Scene(nodes=fleets.numa_aggregates(), variables=_AGGREGATES),
    "NUMANetworkFixture": Scene(
        nodes=fleets.numa_network(),
        holders=fleets.numa_network_holders(),
        variables=_uuids("AGGA_UUID"),
    ),
    "DeepNUMANetworkFixture": Scene(
        nodes=fleets.deep_numa_network(),
        holders=fleets.numa_network_holders(),
        variables=_uuids("AGGA_UUID"),
    ),
    "NonSharedStorageFixture": Scene(nodes=fleets.own_storage(), variables=_AGGREGATES),
    "GranularFixture": Scene(nodes=fleets.granular(), variables=_uuids("AGGA AGGB AGGC")),
    "NeutronQoSMultiSegmentFixture": Scene(
        nodes=fleets.network_segments(),
        # The suite's own fixture names the agent of another host here.
        variables={"compute3:sriov_agent": uuid_of("compute2:NIC Switch agent")},
    ),
    "LegacyRBACPolicyFixture": Scene(Settings(enforces_new_defaults=False)),
    "SecureRBACPolicyFixture": Scene(Settings(enforces_new_defaults=True)),
    "OpenPolicyFixture": Scene(Settings(opens_policy=True)),
    "CORSFixture": Scene(
        Settings(
            cors_origins=("http://valid.example.com",),
            cors_headers=("openstack-api-version",),
        )
    ),
}


class FixtureError(Exception):
    """A file names a fixture that has no scene here."""


def scene_of(fixture: str) -> Scene:
    """Return the scene of a fixture.

    Raises:
        FixtureError: the fixture has no scene.
    """
    if fixture not in FIXTURES:
        raise FixtureError(f"fixtures.py has no scene for {fixture}")
    return FIXTURES[fixture]


def environment(scene: Scene) -> dict[str, str]:
    """Return the environment variables that the tests of a scene look up."""
    of_nodes = {one.variable: one.uuid for one in scene.nodes if one.variable}
    return NAMES | of_nodes | scene.variables


def group_of(fixture: str) -> str:
    """Return the group of tests in which a fixture's files are counted."""
    if fixture == "CORSFixture":
        return "cors"
    return "rbac and policy" if fixture.endswith("PolicyFixture") else "core"
