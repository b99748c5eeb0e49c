"""Choosing among weighed hosts: the best, or one of the best by chance."""

from random import Random

from berth.scheduling.evaluation.ranking import Ranking


class RandomSource:
    """The only source of chance of a plan; it is made when it is first asked, as few plans do."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random: Random | None = None

    @property
    def random(self) -> Random:
        """The generator, the same one for the whole plan."""
        if self._random is None:
            # A choice among equals that must replay, not a secret.
            self._random = Random(self._seed)  # noqa: S311
        return self._random


def choose_host(
    ranked: Ranking, *, subset_size: int, shuffle: bool, random_source: RandomSource, shown: int
) -> tuple[int, list[int]]:
    """Choose one host and name those that come next (nova-behaviour.md 2.1, 2.5).

    Args:
        ranked: at least one host.
        subset_size: choose at random among so many of the best.
        shuffle: shuffle the hosts that share the best score before the subset is cut.
        random_source: the only source of chance.
        shown: how many runners-up to name.

    Returns:
        The ranking's number of the chosen host, and those of the runners-up, best first.
    """
    size = max(subset_size, 1)
    order = ranked.best(size + shown)
    if size == 1 and not shuffle:
        return order[0], order[1:]
    if shuffle:
        order = _shuffled_best(ranked, order, random_source.random)
    chosen = order[random_source.random.randrange(min(size, len(order)))] if size > 1 else order[0]
    return chosen, [number for number in order if number != chosen][:shown]


def _shuffled_best(ranked: Ranking, order: list[int], rng: Random) -> list[int]:
    best = ranked.tied()
    rng.shuffle(best)
    chosen = set(best)
    return (best + [number for number in order if number not in chosen])[: len(order)]
