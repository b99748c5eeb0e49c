"""Fixtures for the tests of the identity API."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.unit.api.cloud import Answer, Stack
from tests.unit.api.identity.cloud import TOKENS, House, login


class LockedStack(Stack):
    """A stack in the mode `identity`."""

    def __init__(self) -> None:
        self.house = House()
        super().__init__(auth=self.house.auth)
        self.parts = replace(self.parts, directory=self.house.directory, tokens=self.house.tokens)

    async def log_in(self, user: str, password: str, scope: object = None) -> Answer:
        """Request a token and return the answer."""
        return await self.ask("POST", TOKENS, login(user, password, scope))

    async def token(self, user: str, password: str, scope: object = None) -> str:
        """Return a new token."""
        answer = await self.log_in(user, password, scope)
        assert answer.status == 201, answer.body
        return answer.headers["X-Subject-Token"]


@pytest.fixture
async def locked() -> AsyncIterator[LockedStack]:
    """Yield a stack with three hosts and the users admin, alice and bob."""
    stack = LockedStack()
    await stack.start()
    yield stack
    await stack.ledger.close()
