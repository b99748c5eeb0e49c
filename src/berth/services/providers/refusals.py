"""Why a change of providers, or of the names they use, is refused."""

from enum import StrEnum

from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Rejected


class Why(StrEnum):
    """The rule that stood in the way."""

    NO_PROVIDER = "no such provider"
    UUID_TAKEN = "another provider has the uuid"
    NAME_TAKEN = "another provider has the name"
    NO_NAME = "a provider needs a name"
    NO_PARENT = "there is no such parent"
    OWN_PARENT = "a provider cannot be its own parent"
    MOVES = "the provider has a parent already and may not be moved"
    BECOMES_ROOT = "the provider has a parent and may not become a root"
    LOOP = "the new parent is below the provider"
    HAS_CHILDREN = "the provider has children"
    HAS_ALLOCATIONS = "something of the provider is used"
    GENERATION = "the provider has changed since"
    NO_CLASS = "no such resource class"
    NO_INVENTORY = "the provider has nothing of the class"
    INVENTORY_EXISTS = "the provider has the class already"
    INVENTORY_IN_USE = "something of the class is used"
    CLASS_EXISTS = "there is such a resource class already"
    CLASS_IS_STANDARD = "the resource class is a standard one"
    CLASS_IN_USE = "a provider has the resource class"
    CLASS_IS_SPREAD = "too many providers have the resource class"
    NO_TRAIT = "no such trait"
    TRAIT_IS_STANDARD = "the trait is a standard one"
    TRAIT_IN_USE = "a provider has the trait"
    CONTENDED = "others keep changing it; try again"


class RefusedError(ConflictError):
    """A change is refused, and nothing was changed.

    Args:
        why: the rule.
        subject: uuid of the provider, or name of the class or trait, it is about.
        names: resource classes or traits that stood in the way, if there are several.
    """

    def __init__(self, why: Why, subject: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(f"{why}: {', '.join(names) or subject}")
        self.why = why
        self.subject = subject
        self.names = names


class RejectedError(ConflictError):
    """The ledger refuses a unit, the same twice, for something else than what was decided on.

    Args:
        rejected: its answer.
    """

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.conflict or str(rejected.shortages))
        self.rejected = rejected
