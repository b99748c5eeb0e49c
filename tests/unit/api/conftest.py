"""Fixtures for the API tests."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest

from berth.api.auth.authentication import Auth
from berth.api.limits import RequestLimits
from berth.domain.compute.flavor import Image
from tests.unit.api.cloud import Stack

MakeStack = Callable[..., Awaitable[Stack]]


@pytest.fixture
async def make_stack() -> AsyncIterator[MakeStack]:
    """Yield a function that starts stacks with the given options; close them at the end."""
    made: list[Stack] = []

    async def make(
        hosts: int = 3,
        *,
        auth: Auth | None = None,
        images: Mapping[str, Image] | None = None,
        limits: RequestLimits | None = None,
    ) -> Stack:
        stack = Stack(auth=auth, images=images, limits=limits)
        await stack.start(hosts)
        made.append(stack)
        return stack

    yield make
    for stack in made:
        await stack.ledger.close()


@pytest.fixture
async def stack(make_stack: MakeStack) -> Stack:
    """Return a stack with three hosts and the flavor `small`."""
    stack = await make_stack()
    await stack.flavor()
    return stack
