"""What the routes between zones are built from."""

from dataclasses import dataclass

from berth.ports.zones import ForwardsToZones
from berth.services.zoning.counting_below import CountingBelow
from berth.services.zoning.ring_marks import RingMarks
from berth.services.zoning.statements import StatementReader
from berth.services.zoning.telling_capabilities import TellingCapabilities
from berth.services.zoning.watching import ZoneWatch
from berth.services.zoning.zones import Zones


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneParts:
    """What a process needs that answers for a zone of a tree.

    Args:
        name: of this zone.
        zones: the records of its children.
        watch: tells which of them are up.
        info: what the zone tells of itself.
        statements: believes what trusted parents state.
        marks: knows lists that come back here.
        children: passes requests on to children.
        counting: knows what servers in children count for here.
        select_timeout_s: longest time that a select of a parent may take.
        build_timeout_s: longest time that a build or a release may take.
    """

    name: str
    zones: Zones
    watch: ZoneWatch
    info: TellingCapabilities
    statements: StatementReader
    marks: RingMarks
    children: ForwardsToZones
    counting: CountingBelow
    select_timeout_s: float
    build_timeout_s: float
