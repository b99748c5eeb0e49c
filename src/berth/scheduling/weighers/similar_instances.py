"""SimilarInstancesWeigher: the number of instances on the host that are similar to the request's.

Similar instances have the same project as the request, or the same value of another attribute.
"""

from berth.scheduling.rules.measure import BoundMeasure, Computed, Rule, check_scale, filled
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.scheduling.rules.similar_instances import similarity_of
from berth.tables.host.hosts import HostTable

NAME = "SimilarInstancesWeigher"


def build(*, multiplier: float = -1.0, attribute: str = "project", scale: float = 1.0) -> Weigher:
    """Build the weigher.

    The raw value is the number n of similar instances on the host; the share is n / (n + scale).

    Args:
        multiplier: a negative value spreads similar instances, a positive value stacks them.
        attribute: what similar instances have in common with the request: `project`, `user`,
            `image`, `flavor`, or `metadata.KEY` for a value of metadata within the project.
        scale: the number of similar instances at which the share is 1/2.

    Raises:
        ValueError: there is no such attribute, or the scale is not above 0.
    """
    similar, scale = similarity_of(attribute), check_scale(scale)

    def bind(hosts: HostTable, query: Query) -> BoundMeasure | None:
        counts = similar.bind(hosts, query)
        if counts is None:
            return None
        return BoundMeasure((Computed(counts.on_rows, counts.on_row),))

    count = Rule(bind)
    return Weigher(
        name=NAME,
        raw=count,
        reads=Reads(request=similar.reads, columns=("instances",)),
        multiplier=multiplier,
        multiplier_key="similar_instances_weight_multiplier",
        share=count.then(lambda ops, number: filled(ops, number, scale)),
    )
