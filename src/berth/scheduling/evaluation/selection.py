"""The choice among ranked hosts: the best one, or one of the best at random."""

from random import Random

from berth.scheduling.evaluation.ranking import Ranking


class RandomSource:
    """The random source of a plan, which creates its generator when that is first used."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random: Random | None = None

    @property
    def random(self) -> Random:
        """The generator, which is the same for the whole plan."""
        if self._random is None:
            # Random choices must be reproducible from the recorded seed, and are not secret.
            self._random = Random(self._seed)  # noqa: S311
        return self._random


def choose_host(
    ranked: Ranking, *, subset_size: int, shuffle: bool, random_source: RandomSource, shown: int
) -> tuple[int, list[int]]:
    """Return the chosen host and the runners-up (nova-behaviour.md 2.1, 2.5).

    Args:
        ranked: at least one host.
        subset_size: the number of best hosts to choose among at random.
        shuffle: whether to shuffle the hosts with the best score before the subset is taken.
        random_source: the random source of the plan.
        shown: the number of runners-up.

    Returns:
        The indices in the ranking of the chosen host and of the runners-up, best first.
    """
    size = max(subset_size, 1)
    if shuffle:
        order = _shuffled_best(ranked, ranked.best(size + shown), random_source.random)
        chosen = order[_drawn(size, len(order), random_source)]
    else:
        # The place is drawn first, so that only the hosts up to it need to be found.
        place = _drawn(size, ranked.count(size), random_source)
        order = ranked.best(max(place, shown) + 1)
        chosen = order[place]
    return chosen, [number for number in order if number != chosen][:shown]


def _drawn(size: int, hosts: int, random_source: RandomSource) -> int:
    """Return a place among the `size` best of some hosts; a size of 1 draws nothing."""
    return random_source.random.randrange(min(size, hosts)) if size > 1 else 0


def _shuffled_best(ranked: Ranking, order: list[int], rng: Random) -> list[int]:
    best = ranked.tied()
    rng.shuffle(best)
    chosen = set(best)
    return (best + [number for number in order if number not in chosen])[: len(order)]
