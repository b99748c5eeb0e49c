"""similar_instances: the number of instances on the host that are similar to the request's.

By default, similar instances have the same user, so a host without instances of the user costs
least.
"""

import numpy as np

from berth.scheduling.evaluation.cost import Cost
from berth.scheduling.rules.rule import Query, Scores
from berth.scheduling.rules.similar_instances import similarity_of
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "similar_instances"


def build(*, weight: float = 1.0, attribute: str = "user") -> Cost:
    """Build the cost function.

    Args:
        weight: the weight of the cost in the sum; a negative weight prefers hosts with similar
            instances.
        attribute: what similar instances have in common with the request: `project`, `user`,
            `image`, `flavor`, or `metadata.KEY` for a value of metadata within the project.

    Raises:
        ValueError: there is no such attribute.
    """
    similar = similarity_of(attribute)

    def cost(hosts: HostTable, query: Query, rows: Selection) -> Scores:
        counts = similar.bind(hosts, query)
        # A request without a value of the attribute is similar to no instance.
        return np.zeros(count_of(rows)) if counts is None else counts.on_rows(rows)

    return Cost(NAME, cost, weight, reads_instances=True)
