"""Tests for creating and changing flavors."""

import asyncio
from dataclasses import replace

import pytest

from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError
from berth.services.servers.flavors import SPECS_MAX, Flavors
from berth.testing.builders import make_flavor
from tests.unit.services.wiring import TappedLedger


@pytest.fixture
def flavors() -> Flavors:
    """Return the use cases on an empty ledger."""
    return Flavors(TappedLedger())


async def test_a_flavor_is_made_read_and_removed(flavors: Flavors) -> None:
    """A flavor is created, read and deleted."""
    flavor = await flavors.create(make_flavor(1))
    assert await flavors.get("1") == flavor
    assert await flavors.all() == [flavor]
    await flavors.delete("1")
    for call in (flavors.get, flavors.delete):
        with pytest.raises(NotFoundError):
            await call("1")


async def test_two_processes_lose_no_change_of_each_other() -> None:
    """Simultaneous changes of two processes are all kept."""
    ledger = TappedLedger()
    processes = [Flavors(ledger), Flavors(ledger)]
    await processes[0].create(make_flavor(1))
    await asyncio.gather(*(processes[n % 2].set_extra_specs("1", {f"k{n}": "v"}) for n in range(8)))
    assert set((await processes[0].get("1")).extra_specs) >= {f"k{n}" for n in range(8)}
    results = await asyncio.gather(
        *(
            one.create(replace(make_flavor(5), flavor_id=f"p{n}"))
            for n, one in enumerate(processes)
        ),
        return_exceptions=True,
    )
    assert sorted(isinstance(result, ConflictError) for result in results) == [False, True]


async def test_id_and_name_are_taken_once(flavors: Flavors) -> None:
    """A flavor's id and name must be unique, and the error names the one that is taken."""
    await flavors.create(make_flavor(1))
    with pytest.raises(ConflictError, match="id 1"):
        await flavors.create(make_flavor(1))
    with pytest.raises(ConflictError, match="name flavor-1"):
        await flavors.create(replace(make_flavor(1), flavor_id="2"))
    results = await asyncio.gather(
        *(flavors.create(replace(make_flavor(7), flavor_id=f"{n}")) for n in (7, 8)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, ConflictError) for result in results) == 1


async def test_extra_specs_are_merged_and_removed(flavors: Flavors) -> None:
    """Extra specs are merged and deleted; deleting an unknown one raises NotFoundError."""
    await flavors.create(replace(make_flavor(1), extra_specs={"a": "1"}))
    await flavors.set_extra_specs("1", {"b": "2"})
    assert (await flavors.get("1")).extra_specs == {"a": "1", "b": "2"}
    await flavors.delete_extra_spec("1", "a")
    assert (await flavors.get("1")).extra_specs == {"b": "2"}
    with pytest.raises(NotFoundError, match="extra spec"):
        await flavors.delete_extra_spec("1", "a")


async def test_changes_at_once_are_all_kept(flavors: Flavors) -> None:
    """Simultaneous changes of extra specs are all kept."""
    await flavors.create(make_flavor(1))
    await asyncio.gather(*(flavors.set_extra_specs("1", {f"k{n}": "v"}) for n in range(5)))
    assert len((await flavors.get("1")).extra_specs) == 5


async def test_specs_that_cannot_be_read_are_refused(flavors: Flavors) -> None:
    """Invalid or too many extra specs are refused."""
    wrong = {"trait:X": "maybe"}
    with pytest.raises(InvalidInputError, match="trait:X"):
        await flavors.create(replace(make_flavor(1), extra_specs=wrong))
    await flavors.create(make_flavor(1))
    with pytest.raises(InvalidInputError, match="trait:X"):
        await flavors.set_extra_specs("1", wrong)
    with pytest.raises(InvalidInputError, match="at most"):
        await flavors.set_extra_specs("1", {f"k{n}": "v" for n in range(SPECS_MAX + 1)})
    assert (await flavors.get("1")).extra_specs == {}


async def test_a_description_is_set_and_taken_away(flavors: Flavors) -> None:
    """A description is set and cleared."""
    await flavors.create(make_flavor(1))
    assert (await flavors.set_description("1", "small")).description == "small"
    assert (await flavors.set_description("1", None)).description is None
    with pytest.raises(NotFoundError):
        await flavors.set_description("2", "none")
