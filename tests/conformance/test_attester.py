"""The attestation port's conformance suite on every attester."""

import pytest

pytest.register_assert_rewrite("berth.testing.attester_conformance")

import httpx  # noqa: E402

from berth.adapters.open_attestation import AttestationAccess, OpenAttester  # noqa: E402
from berth.adapters.system import SystemClock  # noqa: E402
from berth.ports.attestation import Attester  # noqa: E402
from berth.testing.attester_conformance import AttesterConformance  # noqa: E402
from berth.testing.fake_attester import FakeAttester  # noqa: E402

LEVELS = {"node-1": "trusted", "node-2": "untrusted"}


class TestFakeAttester(AttesterConformance):
    """The fake attester."""

    @pytest.fixture
    def attester(self) -> Attester:
        """Return a fake attester that knows two nodes."""
        return FakeAttester(LEVELS, SystemClock())


class TestOpenAttester(AttesterConformance):
    """Open Attestation over HTTP, with a service that reports more nodes than requested."""

    @pytest.fixture
    def attester(self) -> Attester:
        """Return an attester whose requests are answered by a mock."""

        def answer(request: httpx.Request) -> httpx.Response:
            states = [
                {"host_name": node, "trust_lvl": level, "vtime": "2026-11-21T12:00:00Z"}
                for node, level in LEVELS.items()
            ]
            return httpx.Response(200, json={"hosts": states})

        return OpenAttester(
            AttestationAccess("https://attester.example/V1.0"),
            SystemClock(),
            transport=httpx.MockTransport(answer),
        )
