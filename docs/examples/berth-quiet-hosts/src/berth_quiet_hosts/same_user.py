"""same_user: the instances of the same user, so that a host without one costs least."""

from berth.scheduling.evaluation.cost import Cost
from berth.scheduling.rules.rule import Query, Scores
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

NAME = "same_user"


def build(*, weight: float = 1.0) -> Cost:
    """Make the cost function.

    Args:
        weight: the weight of the cost in the sum.
    """

    def cost(hosts: HostTable, query: Query, rows: Selection) -> Scores:
        return hosts.residents.count({"user": query.request.user_id}, rows)

    return Cost(NAME, cost, weight, reads_instances=True)
