"""Scenes: the server settings, providers and variables that a gabbi file needs at its start.

A file of Placement's own suite names one fixture. Here each fixture has a scene, which is data:
any server can be started with its settings and filled over HTTP.
"""

from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, uuid5


def uuid_of(label: str) -> str:
    """Return the uuid of a label, which is the same in every run."""
    return str(uuid5(NAMESPACE_URL, f"placement-scene:{label}"))


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that are fixed when a server starts.

    Attributes:
        enforces_new_defaults: whether only the new roles apply; if not, an admin may do all.
        opens_policy: whether every policy rule allows everyone.
        cors_origins: the origins that CORS allows; none disables CORS.
        cors_headers: the request headers that CORS allows.
    """

    enforces_new_defaults: bool = False
    opens_policy: bool = False
    cors_origins: tuple[str, ...] = ()
    cors_headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stock:
    """The inventory of one class; `max_unit` None stands for the total."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int | None = None
    step_size: int = 1
    allocation_ratio: float = 1.0

    def body(self) -> dict[str, int | float]:
        """Return the inventory as the API takes it."""
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
        name: its name.
        variable: the environment variable in which tests look up the uuid, or an empty string.
        parent: the name of its parent, if it has one.
        aggregates: the labels of its aggregates.
        traits: its traits, in the order in which they are sent.
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
    """A consumer and its allocation of one provider."""

    label: str
    provider: str
    amounts: dict[str, int]
    project_id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class Scene:
    """The state of a server at the start of a file.

    Attributes:
        settings: the settings of the server.
        nodes: the providers, parents before children.
        holders: the consumers with allocations before the first test.
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
    """Return a provider; labels and traits are separated by blanks, and an int is a plain total."""
    return Node(
        name,
        variable,
        parent,
        tuple(aggregates.split()),
        tuple(traits.split()),
        {name: Stock(one) if isinstance(one, int) else one for name, one in stocks.items()},
        uuid or uuid_of(name),
    )
