"""Counterfactuals: which host would have won without one of the weighers."""

from berth.domain.compute.decision import Counterfactual
from berth.scheduling.evaluation.ranking import Ranking, best_first
from berth.scheduling.evaluation.weighing import multiplied


def counterfactuals(ranking: Ranking) -> tuple[Counterfactual, ...]:
    """Tell for each weigher which host of a whole ranking would be the best without it.

    What the other weighers give does not change, as each is put on its scale by itself. Scores
    are summed again without the one, so that rounding leaves no trace of it.
    """
    found: list[Counterfactual] = []
    hosts, rank = ranking.hosts, ranking.hosts.rank[ranking.rows]
    for left_out in ranking.parts:
        scores = ranking.scores * 0.0
        for part in ranking.parts:
            if part is not left_out:
                scores += multiplied(part.normalised, part.multiplier)
        (best,) = best_first(scores, rank, 1)
        name, node, _ = hosts.identity(ranking.row(best))
        weigher = left_out.weigher.name
        found.append(Counterfactual(weigher, name, node, float(scores[best])))
    return tuple(found)
