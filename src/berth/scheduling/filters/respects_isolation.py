"""IsolatedHostsFilter: isolated images run on isolated hosts, and other images do not."""

from collections.abc import Sequence

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, spread
from berth.tables.host.hosts import HostTable

NAME = "IsolatedHostsFilter"


def build(
    *,
    isolated_images: tuple[str, ...] = (),
    isolated_hosts: tuple[str, ...] = (),
    restrict_isolated_hosts_to_isolated_images: bool = True,
) -> Filter:
    """Build the filter (nova-behaviour.md 2.6).

    If isolated hosts are restricted and no image is isolated, no instance may run on them.

    Args:
        isolated_images: the ids of images that run on isolated hosts only.
        isolated_hosts: the names of isolated hosts, case-sensitive.
        restrict_isolated_hosts_to_isolated_images: keep other images off these hosts.
    """
    images, names = frozenset(isolated_images), frozenset(isolated_hosts)
    restricted = restrict_isolated_hosts_to_isolated_images

    def isolated(query: Query) -> str | None:
        image = query.request.image
        return image.image_id if image is not None and image.image_id in images else None

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        is_isolated = isolated(query) is not None
        if not is_isolated and not (names and restricted):
            return None
        mine = {row: 1.0 for name in names for row in hosts.host_names.of_name(name)}
        kept: Mask = (spread(mine, rows) > 0) == is_isolated
        return kept

    def why(hosts: HostTable, query: Query, row: int) -> str:
        image_id = isolated(query)
        if image_id is not None:
            return f"image {image_id} is isolated, and the host is not"
        kept_for = f": {', '.join(sorted(images))}" if images else ", and the policy names none"
        return f"it is reserved for isolated images{kept_for}"

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        what = "isolating the hosts" if isolated(query) is None else "isolating the image"
        return without(NAME, "image", what, hosts, rows)

    return Filter(
        name=NAME,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(request=("image.image_id",), columns=("host",)),
        once_per_request=True,
        # A rebuild may change the image.
        run_on_rebuild=True,
        options={"isolated_images": images, "isolated_hosts": names},
    )
