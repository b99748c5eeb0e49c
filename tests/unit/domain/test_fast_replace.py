"""Tests for copies of records with some fields changed."""

from dataclasses import FrozenInstanceError, replace

import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.fast_replace import fast_replace
from berth.testing.builders import make_flavor, make_instance


def test_a_revision_is_what_replace_makes() -> None:
    """A copy equals the result of `replace`, and the original record does not change."""
    before = make_instance(1)
    after = fast_replace(before, status=Status.ACTIVE, task=None, revision=3)
    assert after == replace(before, status=Status.ACTIVE, task=None, revision=3)
    assert (before.task, before.revision) == (Task.SCHEDULING, 0)
    assert fast_replace(before) == before


def test_a_revision_is_as_frozen_as_the_record() -> None:
    """The copy of a frozen record is frozen as well."""
    copy = fast_replace(make_instance(1), name="other")
    assert isinstance(copy, Instance)
    with pytest.raises(FrozenInstanceError):
        copy.name = "another"  # type: ignore[misc]


def test_what_is_no_field_is_refused() -> None:
    """A keyword that is not a field of the record is refused."""
    with pytest.raises(KeyError, match="colour"):
        fast_replace(make_instance(1), colour="red")


def test_records_that_check_themselves_are_refused() -> None:
    """`fast_replace` refuses record types with a `__post_init__`, whose checks it would skip."""
    assert hasattr(Flavor, "__post_init__")
    with pytest.raises(TypeError, match="Flavor"):
        fast_replace(make_flavor(), vcpus=-1)
