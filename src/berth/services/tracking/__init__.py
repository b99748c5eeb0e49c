"""Instance tracking: the agents' casts about their instances, and the lists made from them.

See docs/adr/0020-instance-information.md.
"""

from berth.services.tracking.doubtful_lists import NOTHING_LEFT_OUT, DecisionBasis
from berth.services.tracking.tracker import InstanceTracker, LedgerView, TrackingPace

__all__ = ["NOTHING_LEFT_OUT", "DecisionBasis", "InstanceTracker", "LedgerView", "TrackingPace"]
