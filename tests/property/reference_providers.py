"""A plain model of changes to providers, resource classes and traits.

The model is a dictionary of plain records, changed in place. It was written from the API's
documents and uses no tables, guards or ledgers.
"""

from copy import deepcopy
from dataclasses import dataclass, field

STANDARD_CLASSES = frozenset({"VCPU"})
STANDARD_TRAITS = frozenset({"HW_A"})


@dataclass
class Node:
    """A provider: totals and used amounts by class."""

    name: str
    parent: str | None
    generation: int = 0
    totals: dict[str, int] = field(default_factory=dict[str, int])
    used: dict[str, int] = field(default_factory=dict[str, int])
    traits: frozenset[str] = frozenset()
    aggregates: tuple[str, ...] = ()


class RefusedError(Exception):
    """The model refuses a change; the text is the name of the broken rule."""


@dataclass
class World:
    """All providers by uuid, and the custom resource classes and traits."""

    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    classes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()

    def copy(self) -> "World":
        """Return an independent copy."""
        return deepcopy(self)

    # ---- providers ---------------------------------------------------------------------------

    def create(self, uuid: str, name: str, parent: str | None) -> int:
        """Create a provider and return its generation."""
        if parent == uuid:
            raise RefusedError("OWN_PARENT")
        if parent is not None and parent not in self.nodes:
            raise RefusedError("NO_PARENT")
        if uuid in self.nodes:
            raise RefusedError("UUID_TAKEN")
        self._check_name(uuid, name)
        self.nodes[uuid] = Node(name, parent)
        return 0

    def change(self, uuid: str, name: str, parent: str | None, may_move: bool) -> int:
        """Give a provider a name and a parent, and return its generation."""
        node = self._node(uuid)
        if parent != node.parent:
            self._check_move(uuid, node, parent, may_move)
        self._check_name(uuid, name)
        node.name, node.parent = name, parent
        return node.generation

    def remove(self, uuid: str) -> None:
        """Remove a provider."""
        node = self._node(uuid)
        if any(other.parent == uuid for other in self.nodes.values()):
            raise RefusedError("HAS_CHILDREN")
        if any(node.used.values()):
            raise RefusedError("HAS_ALLOCATIONS")
        del self.nodes[uuid]

    def _node(self, uuid: str, generation: int | None = None) -> Node:
        if uuid not in self.nodes:
            raise RefusedError("NO_PROVIDER")
        node = self.nodes[uuid]
        if generation is not None and generation != node.generation:
            raise RefusedError("GENERATION")
        return node

    def _check_name(self, uuid: str, name: str) -> None:
        if any(node.name == name for key, node in self.nodes.items() if key != uuid):
            raise RefusedError("NAME_TAKEN")

    def _check_move(self, uuid: str, node: Node, parent: str | None, may_move: bool) -> None:
        if parent is not None and parent not in self.nodes:
            raise RefusedError("NO_PARENT")
        if node.parent is not None and not may_move:
            raise RefusedError("BECOMES_ROOT" if parent is None else "MOVES")
        above = parent
        while above is not None:
            if above == uuid:
                raise RefusedError("LOOP")
            above = self.nodes[above].parent

    # ---- inventories, traits and aggregates ------------------------------------------------------

    def set_all(self, uuid: str, totals: dict[str, int], generation: int | None) -> int:
        """Replace all inventories and return the new generation."""
        node = self._node(uuid, generation)
        for name in totals:
            self._check_class(name)
        if any(amount and name not in totals for name, amount in node.used.items()):
            raise RefusedError("INVENTORY_IN_USE")
        node.totals = dict(totals)
        return self._raised(node)

    def add(self, uuid: str, name: str, total: int) -> int:
        """Add an inventory and return the new generation."""
        node = self._node(uuid)
        if name in node.totals:
            raise RefusedError("INVENTORY_EXISTS")
        self._check_class(name)
        node.totals[name] = total
        return self._raised(node)

    def set_one(self, uuid: str, name: str, total: int, generation: int) -> int:
        """Replace one inventory and return the new generation."""
        node = self._node(uuid, generation)
        self._check_class(name)
        if name not in node.totals:
            raise RefusedError("NO_INVENTORY")
        node.totals[name] = total
        return self._raised(node)

    def remove_one(self, uuid: str, name: str) -> int:
        """Remove one inventory and return the new generation."""
        node = self._node(uuid)
        self._check_class(name)
        if name not in node.totals:
            raise RefusedError("NO_INVENTORY")
        if node.used.get(name):
            raise RefusedError("INVENTORY_IN_USE")
        del node.totals[name]
        return self._raised(node)

    def take(self, uuid: str, name: str, amount: int) -> bool:
        """Use an amount of a class if that much is free; tell whether it was."""
        node = self.nodes.get(uuid)
        if node is None or name not in node.totals:
            return False
        if not node.used.get(name, 0) + amount <= node.totals[name]:
            return False
        node.used[name] = node.used.get(name, 0) + amount
        self._raised(node)
        return True

    def set_traits(self, uuid: str, traits: frozenset[str], generation: int | None) -> int:
        """Replace the traits and return the generation, which equal traits leave unchanged."""
        node = self._node(uuid, generation)
        if traits - self.traits - STANDARD_TRAITS:
            raise RefusedError("NO_TRAIT")
        if traits == node.traits:
            return node.generation
        node.traits = traits
        return self._raised(node)

    def set_aggregates(self, uuid: str, uuids: tuple[str, ...], generation: int | None) -> int:
        """Replace the aggregates and return the generation."""
        node = self._node(uuid, generation)
        node.aggregates = uuids
        return node.generation if generation is None else self._raised(node)

    def _raised(self, node: Node) -> int:
        node.generation += 1
        return node.generation

    # ---- names -----------------------------------------------------------------------------------

    def ensure_class(self, name: str) -> bool:
        """Create a class unless it exists; tell whether it is new."""
        is_new = name not in self.classes | STANDARD_CLASSES
        self.classes |= {name} - STANDARD_CLASSES
        return is_new

    def create_class(self, name: str) -> None:
        """Create a class."""
        if not self.ensure_class(name):
            raise RefusedError("CLASS_EXISTS")

    def rename_class(self, old: str, new: str) -> None:
        """Rename a class, in all inventories too."""
        self._check_own_class(old)
        if old == new:
            return
        if new in self.classes | STANDARD_CLASSES:
            raise RefusedError("CLASS_EXISTS")
        if any(node.used.get(old) for node in self.nodes.values()):
            raise RefusedError("CLASS_IN_USE")
        self.classes = self.classes - {old} | {new}
        for node in self.nodes.values():
            if old in node.totals:
                node.totals[new] = node.totals.pop(old)

    def remove_class(self, name: str) -> None:
        """Remove a class that no provider has an inventory of."""
        self._check_own_class(name)
        if any(name in node.totals for node in self.nodes.values()):
            raise RefusedError("CLASS_IN_USE")
        self.classes -= {name}

    def ensure_trait(self, name: str) -> bool:
        """Create a trait unless it exists; tell whether it is new."""
        is_new = name not in self.traits | STANDARD_TRAITS
        self.traits |= {name} - STANDARD_TRAITS
        return is_new

    def remove_trait(self, name: str) -> None:
        """Remove a trait that no provider has."""
        if name in STANDARD_TRAITS:
            raise RefusedError("TRAIT_IS_STANDARD")
        if name not in self.traits:
            raise RefusedError("NO_TRAIT")
        if any(name in node.traits for node in self.nodes.values()):
            raise RefusedError("TRAIT_IN_USE")
        self.traits -= {name}

    def _check_class(self, name: str) -> None:
        if name not in self.classes | STANDARD_CLASSES:
            raise RefusedError("NO_CLASS")

    def _check_own_class(self, name: str) -> None:
        self._check_class(name)
        if name in STANDARD_CLASSES:
            raise RefusedError("CLASS_IS_STANDARD")
