"""What a gabbi file finds when it starts: the settings of the server, the providers, the names.

A file of Placement's own suite names one fixture. Here each of these names stands for a scene,
which is data: any server can be started with its settings and filled over HTTP.
"""

from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, uuid5


def uuid_of(label: str) -> str:
    """Return the uuid of a label: the same one in every run."""
    return str(uuid5(NAMESPACE_URL, f"placement-scene:{label}"))


@dataclass(frozen=True, slots=True)
class Settings:
    """What only the start of a server can set.

    Attributes:
        enforces_new_defaults: the new roles hold; otherwise an admin may do everything, too.
        opens_policy: every rule lets everybody in.
        cors_origins: origins that browsers may call from; empty: no CORS.
        cors_headers: request headers that these may send.
    """

    enforces_new_defaults: bool = False
    opens_policy: bool = False
    cors_origins: tuple[str, ...] = ()
    cors_headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stock:
    """The inventory of one class; without `max_unit`, all of it at once."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int | None = None
    step_size: int = 1
    allocation_ratio: float = 1.0

    def body(self) -> dict[str, int | float]:
        """Say it as the API takes it."""
        return {
            "total": self.total,
            "reserved": self.reserved,
            "min_unit": self.min_unit,
            "max_unit": self.total if self.max_unit is None else self.max_unit,
            "step_size": self.step_size,
            "allocation_ratio": self.allocation_ratio,
        }


@dataclass(frozen=True, slots=True)
class Node:
    """One provider.

    Attributes:
        name: its name, from which its uuid follows where none is given.
        variable: the environment variable in which a test looks for the uuid; empty: none.
        parent: name of the provider above it.
        aggregates: labels of its aggregates.
        traits: in the order in which they are set.
        stocks: the inventory of each class.
        uuid: its uuid.
    """

    name: str
    variable: str = ""
    parent: str | None = None
    aggregates: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    stocks: dict[str, Stock] = field(default_factory=dict[str, Stock])
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """A consumer and what it takes of one provider."""

    label: str
    provider: str
    amounts: dict[str, int]
    project_id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class Scene:
    """All of it.

    Attributes:
        settings: of the server.
        nodes: parents before children.
        holders: who has allocations before the first test.
        variables: further environment variables and their values.
    """

    settings: Settings = Settings()
    nodes: tuple[Node, ...] = ()
    holders: tuple[Holder, ...] = ()
    variables: dict[str, str] = field(default_factory=dict[str, str])


def node(
    name: str,
    variable: str = "",
    *,
    parent: str | None = None,
    aggregates: str = "",
    traits: str = "",
    uuid: str = "",
    **stocks: int | Stock,
) -> Node:
    """Write a provider down: words apart by blanks, a bare number for a plain inventory."""
    return Node(
        name,
        variable,
        parent,
        tuple(aggregates.split()),
        tuple(traits.split()),
        {name: Stock(one) if isinstance(one, int) else one for name, one in stocks.items()},
        uuid or uuid_of(name),
    )
