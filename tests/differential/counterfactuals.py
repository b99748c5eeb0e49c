"""What Berth would say of a case if one thing in it were otherwise.

So an entry of the table of wanted differences can say exactly what it wants: with that one thing
read as Nova reads it, Berth says what Nova says.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Image
from tests.differential.answers import Verdict, value_of, verdict_of
from tests.differential.cases import Case

Images = Mapping[str, Mapping[str, str]]
"""Properties as Nova reads them: those asked for under an empty name, others by instance."""

_FALSE = ("False", "0")
"""Values that are false in Nova, as it writes them."""


def without_key(case: Case, key: str, is_dropped: Callable[[Sequence[str]], bool]) -> Case:
    """Take a metadata key from the aggregates of some hosts.

    Args:
        case: where.
        key: which.
        is_dropped: told the texts that a host has under the key, says whether it is of these hosts.
    """
    aggregates = case.snapshot.aggregates
    names = dict.fromkeys(host.name for host in case.snapshot.hosts)
    own = [one for name in names for one in _own(aggregates, name, key, is_dropped)]
    numbered = tuple(
        replace(one, aggregate_id=number, uuid=f"own-{number}", name=f"own-{number}")
        for number, one in enumerate(own, 1)
    )
    return replace(case, snapshot=replace(case.snapshot, aggregates=numbered))


def _own(
    aggregates: Sequence[Aggregate],
    name: str,
    key: str,
    is_dropped: Callable[[Sequence[str]], bool],
) -> Iterator[Aggregate]:
    """Yield aggregates of one host alone, in place of those that it shares with others."""
    mine = [one for one in aggregates if name in one.hosts]
    dropped = is_dropped([one.metadata[key] for one in mine if key in one.metadata])
    for one in mine:
        kept = {other: text for other, text in one.metadata.items() if other != key or not dropped}
        yield replace(one, hosts=frozenset({name}), metadata=kept)


def with_images(case: Case, images: Images, *, false_counts: bool) -> Case:
    """Give images the properties that Nova reads of them.

    Args:
        case: where.
        images: what Nova reads.
        false_counts: whether a property that is `False` or 0 is one.
    """

    def read(image: Image | None, uuid: str) -> Image | None:
        told = images.get(uuid, {}).items()
        kept = {name: value for name, value in told if false_counts or value not in _FALSE}
        return image and replace(image, properties=kept)

    return replace(
        case,
        request=replace(case.request, image=read(case.request.image, "")),
        snapshot=replace(
            case.snapshot,
            instances=tuple(
                replace(one, image=read(one.image, one.uuid)) for one in case.snapshot.instances
            ),
        ),
    )


def with_hint(case: Case, name: str, text: str) -> Case:
    """Give a hint another text."""
    hints = {**case.request.hints, name: (text,)}
    return replace(case, request=replace(case.request, hints=hints))


def with_specs(case: Case, extra_specs: Mapping[str, str]) -> Case:
    """Ask for other extra specs."""
    flavor = replace(case.request.flavor, extra_specs=extra_specs)
    return replace(case, request=replace(case.request, flavor=flavor))


def verdict(case: Case, rule: str, host: int | None) -> Verdict:
    """Say whether Berth lets a host of a case pass a filter."""
    assert host is not None
    return verdict_of(case, rule, host)


def value(case: Case, rule: str, what: str, host: int | None) -> float:
    """Say what Berth's weigher says of a host of a case."""
    assert host is not None
    return value_of(case, rule, what, host)
