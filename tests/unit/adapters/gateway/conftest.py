"""Fixtures of the gateway tests, which run in virtual time."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping

import pytest

from berth.testing.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """Run every test of this folder on a virtual loop."""
    return {"virtual": VirtualLoop}
