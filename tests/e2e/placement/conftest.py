"""A Placement server for each test: OpenStack's own or Berth (see `under_test`)."""

from collections.abc import Iterator

import pytest

from tests.conformance.placement.servers import MISSING, PYTHON, Choice, serving, under_test


@pytest.fixture(params=under_test())
def placement(request: pytest.FixtureRequest) -> Iterator[str]:
    """Start an empty server and yield its URL; the token `admin` allows everything."""
    if not PYTHON.exists():
        pytest.skip(MISSING)
    with serving(Choice(request.param)) as port:
        yield f"http://127.0.0.1:{port}"
