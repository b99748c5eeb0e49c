"""What the routes between zones are built from."""

from dataclasses import dataclass

from berth.ports.zones import ZoneForwarder
from berth.services.zoning.children.capabilities import CapabilityReport
from berth.services.zoning.children.zone_watch import ZoneWatch
from berth.services.zoning.children.zones import Zones
from berth.services.zoning.delegation.remote_usage import RemoteUsage
from berth.services.zoning.messages.assertions import AssertionVerifier
from berth.services.zoning.messages.loop_tokens import LoopTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneParts:
    """What a process needs that answers for a zone of a tree.

    Args:
        name: of this zone.
        zones: the records of its children.
        watch: tells which of them are up.
        info: what the zone tells of itself.
        assertions: believes what trusted parents state.
        loop_tokens: recognises lists that came back here through its children.
        children: passes requests on to children.
        counting: knows what servers in children count for here.
        select_timeout_s: longest time that a select of a parent may take.
        build_timeout_s: longest time that a build or a release may take.
    """

    name: str
    zones: Zones
    watch: ZoneWatch
    info: CapabilityReport
    assertions: AssertionVerifier
    loop_tokens: LoopTokens
    children: ZoneForwarder
    counting: RemoteUsage
    select_timeout_s: float
    build_timeout_s: float
