"""Filters for aggregates whose metadata lists the projects, flavors or images that they admit.

A host is reserved if one of its aggregates has the filter's metadata key: only requests with a
listed value pass. A host without the key is open to all (nova-behaviour.md 2.6).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.aggregates import TENANT_PREFIX, admits, listed
from berth.scheduling.rules.rule import Filter, Query, Reads, count_hosts, example_names, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable

_PROJECTS = "AggregateMultiTenancyIsolation"
_FLAVORS = "AggregateTypeAffinityFilter"
_FLAVOR_KEYS = ("instance_type",)
_IMAGES = "AggregateImagePropertiesIsolation"


# ---- projects -------------------------------------------------------------------------------


def build_project() -> Filter:
    """Build AggregateMultiTenancyIsolation: the host's aggregates list the request's project.

    Every metadata key that begins with `filter_tenant_id` lists projects. The filter has no
    options.
    """
    return Filter(
        name=_PROJECTS,
        keep=_keep_project,
        why=_why_project,
        relax=_relax_project,
        reads=Reads(request=("project_id",), columns=("aggregates",)),
        # Placements change no aggregate, so one verdict serves all instances of a request.
        once_per_request=True,
    )


def _project_keys(hosts: HostTable) -> list[str]:
    return [key for key in hosts.memberships.by_key if key.startswith(TENANT_PREFIX)]


def _keep_project(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    return admits(hosts, _project_keys(hosts), query.request.project_id, rows)


def _why_project(hosts: HostTable, query: Query, row: int) -> str:
    project = query.request.project_id or "a request without a project"
    projects = listed(hosts, _project_keys(hosts), row)
    return f"it is reserved for the projects {projects}, not for {project}"


def _relax_project(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    # The owner of the request reads relaxations and must not learn of other projects.
    return without(_PROJECTS, "project_id", "the reservation for other projects", hosts, rows)


# ---- flavors --------------------------------------------------------------------------------


def build_flavor() -> Filter:
    """Build AggregateTypeAffinityFilter: the host's aggregates list the request's flavor.

    The metadata key `instance_type` lists names of flavors. The filter has no options.
    """
    return Filter(
        name=_FLAVORS,
        keep=_keep_flavor,
        why=_why_flavor,
        relax=_relax_flavor,
        reads=Reads(request=("flavor.name",), columns=("aggregates",)),
        # Placements change no aggregate, so one verdict serves all instances of a request.
        once_per_request=True,
    )


def _keep_flavor(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    return admits(hosts, _FLAVOR_KEYS, query.request.flavor.name, rows)


def _why_flavor(hosts: HostTable, query: Query, row: int) -> str:
    flavor = query.request.flavor.name
    return f"it is reserved for the flavors {listed(hosts, _FLAVOR_KEYS, row)}, not for {flavor}"


def _relax_flavor(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    # No flavor is named: it may be private, and the owner of the request reads relaxations.
    return [
        Relaxation(
            filter=_FLAVORS,
            subject="flavor",
            text=f"a flavor that hosts are reserved for: {count_hosts(rows.size)}",
            hosts=int(rows.size),
            examples=example_names(hosts, rows),
        )
    ]


# ---- images ---------------------------------------------------------------------------------


def build_image(
    *,
    aggregate_image_properties_isolation_namespace: str = "",
    aggregate_image_properties_isolation_separator: str = ".",
) -> Filter:
    """Build AggregateImagePropertiesIsolation: the host's aggregates list the image's properties.

    A metadata key with the name of an image property must list the property's value; images
    without that property, or with an empty one, pass. Since Liberty, Nova compares only the
    properties that it defines itself. This filter also compares properties that operators define.

    Args:
        aggregate_image_properties_isolation_namespace: if given, only properties whose name begins
            with it and the separator are compared. The metadata key has the same full name.
        aggregate_image_properties_isolation_separator: the text after the namespace.
    """
    namespace = aggregate_image_properties_isolation_namespace
    separator = aggregate_image_properties_isolation_separator
    rule = _ImageIsolation(prefix=namespace + separator if namespace else "")
    return Filter(
        name=_IMAGES,
        keep=rule.keep,
        why=rule.why,
        relax=rule.relax,
        reads=Reads(request=("image.properties",), columns=("aggregates",)),
        # Placements change no aggregate, so one verdict serves all instances of a request.
        once_per_request=True,
        # A rebuild may change the image, and the host must admit the new one.
        run_on_rebuild=True,
    )


class _ImageIsolation:
    """The rule for image properties whose names begin with a prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def keep(self, hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        if not self._properties(query):
            return None
        kept = np.ones(count_of(rows), dtype=np.bool_)
        for _, admitted in self._verdicts(hosts, query, rows):
            kept &= admitted
        return kept

    def why(self, hosts: HostTable, query: Query, row: int) -> str:
        properties = self._properties(query)
        unmet = [
            f"{key} {listed(hosts, [key], row)}, and the image has {properties[key]}"
            for key, admitted in self._verdicts(hosts, query, np.array([row]))
            if not admitted[0]
        ]
        return f"it is reserved for images with {'; '.join(unmet)}"

    def relax(self, hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        verdicts = list(self._verdicts(hosts, query, rows))
        failed = np.sum([~admitted for _, admitted in verdicts], axis=0)
        found: list[Relaxation] = []
        for key, admitted in verdicts:
            winners = rows[~admitted & (failed == 1)]
            found.extend(without(_IMAGES, key, f"the image property {key}", hosts, winners))
        return found

    def _properties(self, query: Query) -> dict[str, str]:
        """Return the image's properties that have a value and whose name has the prefix."""
        image = query.request.image
        if image is None:
            return {}
        properties = image.properties.items()
        return {key: value for key, value in properties if value and key.startswith(self._prefix)}

    def _verdicts(
        self, hosts: HostTable, query: Query, rows: Selection
    ) -> Iterator[tuple[str, Mask]]:
        for key, value in self._properties(query).items():
            if hosts.memberships.with_key(key):
                yield key, admits(hosts, [key], value, rows)
