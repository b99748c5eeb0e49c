"""Strategies for providers of the Placement API, with few names, so that drawn values collide."""

from typing import Final

from hypothesis import strategies as st

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import RATIO_BOUND, Inventory, ResourceClass, Trait
from berth.domain.ledger.change import Event, RecordRemoved, Usage
from berth.domain.ledger.record import Kind
from berth.tables.provider.sharing import SHARES

UUIDS: Final = tuple(f"00000000-0000-4000-8000-00000000000{number}" for number in range(7))
CLASSES: Final[tuple[str, ...]] = ("VCPU", "MEMORY_MB", "CUSTOM_GPU", "CUSTOM_NIC")
TRAITS: Final[tuple[str, ...]] = (SHARES, "HW_CPU_X86_AVX", "CUSTOM_A")
AGGREGATES: Final = ("aggregate-0", "aggregate-1", "aggregate-2", "aggregate-3")

_UNUSED = ("CUSTOM_X", "CUSTOM_Y")
_CLASSES: st.SearchStrategy[str] = st.sampled_from(CLASSES)
_AMOUNTS = st.integers(0, 9)


def odd_inventories() -> st.SearchStrategy[Inventory]:
    """Draw an inventory whose ratio and capacity may be 0 or negative."""
    return st.builds(
        Inventory,
        total=_AMOUNTS,
        reserved=_AMOUNTS,
        min_unit=st.integers(1, 3),
        max_unit=_AMOUNTS,
        step_size=st.integers(1, 3),
        allocation_ratio=st.sampled_from((1.0, 1.0, 2.5, 0.5, 0.0, -1.0, -0.1, 1e30, -RATIO_BOUND)),
    )


# Each strategy is built once, since building one takes longer than drawing from it.
_INVENTORIES: st.SearchStrategy[dict[str, Inventory]] = st.dictionaries(
    _CLASSES, odd_inventories(), max_size=3
)
_TRAITS = st.frozensets(st.sampled_from(TRAITS))
_OWNED = st.none() | _TRAITS
_UUIDS = st.sampled_from(UUIDS)
_NAMES = st.sampled_from(("", "a", "b"))
# Cycles and missing parents are drawn as well: readers must not loop on them.
_PARENTS = st.sampled_from((None, None, *UUIDS))
_AGGREGATES = st.lists(st.sampled_from(AGGREGATES), unique=True, max_size=2)
_OWNED_PARENTS = st.sampled_from((None, *UUIDS))
_UPDATED_S = st.sampled_from((0.0, 7.5))


@st.composite
def told_providers(draw: st.DrawFn) -> Provider:
    """Draw one of a few providers, whose parent is another provider, itself or None."""
    inventories = draw(_INVENTORIES)
    used = {name: amount for name in inventories if (amount := draw(_AMOUNTS))}
    return Provider(
        uuid=draw(_UUIDS),
        name=draw(_NAMES),
        parent_uuid=draw(_PARENTS),
        generation=draw(_AMOUNTS),
        inventories=inventories,
        used=used,
        traits=draw(_TRAITS),
        aggregates=tuple(draw(_AGGREGATES)),
        owned_traits=draw(_OWNED),
        owned_classes=draw(_OWNED),
        owned_parent_uuid=draw(_OWNED_PARENTS),
        updated_at_s=draw(_UPDATED_S),
    )


def provider_events() -> st.SearchStrategy[Event]:
    """Draw a change-feed event about a provider."""
    usages = st.builds(
        Usage,
        provider_uuid=st.sampled_from(UUIDS),
        used=st.dictionaries(_CLASSES, _AMOUNTS, max_size=3),
        generation=st.none() | _AMOUNTS,
    )
    gone = st.builds(RecordRemoved, kind=st.just(Kind.PROVIDER), key=st.sampled_from(UUIDS))
    # Providers are drawn more often; otherwise, most usages would be those of unknown providers.
    return st.one_of(told_providers(), told_providers(), told_providers(), usages, gone)


def name_events() -> st.SearchStrategy[Event]:
    """Draw a change-feed event about a resource class or a trait."""
    classes, traits = st.sampled_from((*CLASSES, *_UNUSED)), st.sampled_from((*TRAITS, *_UNUSED))
    return st.one_of(
        st.builds(ResourceClass, name=classes, number=_AMOUNTS),
        st.builds(Trait, name=traits, number=_AMOUNTS),
        st.builds(RecordRemoved, kind=st.just(Kind.RESOURCE_CLASS), key=classes),
        st.builds(RecordRemoved, kind=st.just(Kind.TRAIT), key=traits),
    )


def provider_histories() -> st.SearchStrategy[list[Event]]:
    """Draw a sequence of change-feed events about a few providers, classes and traits."""
    return st.lists(st.one_of(provider_events(), provider_events(), name_events()), max_size=25)
