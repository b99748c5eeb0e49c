"""Similar instances: instances on a host that have the same value of an attribute as the request.

The attribute is the project, the user, the image, the flavor, or a value of metadata. Metadata is
compared within the project of the request only: tenants choose it, so a tenant could otherwise
guess the values of other tenants from which of its requests are refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from berth.domain.compute.request import Request
from berth.scheduling.rules.rule import Query, Scores
from berth.tables.columnar.bitsets import Selection, is_row
from berth.tables.host.hosts import HostTable
from berth.tables.host.resident_columns import METADATA

Wanted = Callable[[Request], Mapping[str, str] | None]
"""(request) -> the values that make an instance similar, or None if the request has none."""


@dataclass(frozen=True, slots=True)
class Similarity:
    """A criterion by which instances are similar to those of a request.

    `noun` describes the instances in a reason, after their number. `reads` are the parts of the
    query that `bind` reads (see `Reads`).
    """

    noun: str
    reads: tuple[str, ...]
    wanted: Wanted

    def bind(self, hosts: HostTable, query: Query) -> "SimilarCounts | None":
        """Return the counts for a query, or None if its request has no value of the attribute."""
        wanted = self.wanted(query.request)
        if wanted is None:
            return None
        own = hosts.occupants.by_uuid.get(query.instance_uuid)
        if own is None or not hosts.residents.has(own.row, own.uuid, wanted):
            return SimilarCounts(hosts, wanted, None)
        return SimilarCounts(hosts, wanted, own.row)


@dataclass(frozen=True, slots=True)
class SimilarCounts:
    """The numbers of similar instances on the rows of a table.

    `own_row` is the row on which the query's own instance is similar, or None. That instance is
    not counted: a resized instance may stay on its host, and must not count against itself. The row
    is determined once, because the engine also uses the counts for later instances of the request,
    when the first one is already on a row.
    """

    hosts: HostTable
    wanted: Mapping[str, str]
    own_row: int | None

    def on_rows(self, rows: Selection) -> Scores:
        """Return the number of similar instances on each of K rows: (K,) float64."""
        counts = self.hosts.residents.count(self.wanted, rows)
        return counts if self.own_row is None else counts - is_row(self.own_row, rows)

    def on_row(self, row: int) -> int:
        """Return the number of similar instances on one row."""
        return self.hosts.residents.count_on(self.wanted, row) - (row == self.own_row)


def similarity_of(attribute: str) -> Similarity:
    """Return the criterion for an attribute, given by its name in the options of rules.

    Args:
        attribute: `project`, `user`, `image`, `flavor`, or `metadata.KEY`.

    Raises:
        ValueError: there is no such attribute.
    """
    if attribute.startswith(METADATA) and attribute != METADATA:
        return _by_metadata(attribute)
    found = _SIMILARITIES.get(attribute)
    if found is None:
        known = ", ".join((*_SIMILARITIES, f"{METADATA}KEY"))
        raise ValueError(f"attribute: {attribute!r} must be one of {known}")
    return found


def _by_metadata(attribute: str) -> Similarity:
    key = attribute.removeprefix(METADATA)

    def wanted(request: Request) -> Mapping[str, str] | None:
        value = request.metadata.get(key)
        return None if value is None else {"project": request.project_id, attribute: value}

    noun = f"of the same project with the same value of the metadata {key}"
    return Similarity(noun, ("project_id", attribute, "instance_attributes"), wanted)


def _by(name: str, path: str, value_of: Callable[[Request], str]) -> Similarity:
    def wanted(request: Request) -> Mapping[str, str] | None:
        value = value_of(request)
        return {name: value} if value else None

    return Similarity(f"of the same {name}", (path, "instance_attributes"), wanted)


_SIMILARITIES: Final[Mapping[str, Similarity]] = {
    "project": _by("project", "project_id", lambda request: request.project_id),
    "user": _by("user", "user_id", lambda request: request.user_id),
    "image": _by(
        "image", "image.image_id", lambda request: request.image.image_id if request.image else ""
    ),
    "flavor": _by("flavor", "flavor.flavor_id", lambda request: request.flavor.flavor_id),
}
