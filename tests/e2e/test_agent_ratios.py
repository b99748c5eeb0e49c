"""The precedence of allocation ratios from settings, operators and hosts, with real processes."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import Part, Processes, Service

_TOLD_S = 60.0


class Case:
    """A service with one host that can be restarted with other settings."""

    def __init__(self, processes: Processes, service: Service, folder: Path) -> None:
        self.processes, self.service, self.folder = processes, service, folder
        self.part: Part | None = None

    def start(self, **ratios: float) -> None:
        """Start the service with these ratios in the agent's settings; stop a running one first."""
        if self.part is not None:
            self.part.stop()
        settings = [f"{name} = {value}" for name, value in ratios.items()]
        config = self.folder / "berth.toml"
        config.write_text("\n".join(["[agent]", "audit_interval_s = 0.3", *settings]))
        self.part = self.processes.start(
            *("up", "--config", str(config), "--listen", self.service.url[len("http://") :]),
            *("--data", str(self.folder / "data"), "--fake-hosts", "1"),
        )
        self.service.wait_until(lambda status: status["hosts"]["up"] == 1, self.part)

    @property
    def vcpu(self) -> dict[str, Any]:
        """The inventory of VCPU of the host, and the host's uuid."""
        (host,) = self.service.get("/berth/v1/hosts")["hosts"]
        found: dict[str, Any] = host["inventories"]["VCPU"] | {"uuid": host["uuid"]}
        return found

    def expect(self, ratio: float, origin: str) -> None:
        """Wait until a ratio of a given origin is in force, and check the capacity."""
        deadline_s = time.monotonic() + _TOLD_S
        while (found := self.vcpu)["allocation_ratio_origin"] != origin or (
            found["allocation_ratio"] != ratio
        ):
            assert time.monotonic() < deadline_s, found
            time.sleep(0.05)
        assert found["capacity"] == int((found["total"] - found["reserved"]) * ratio)

    def write(self, ratio: float) -> None:
        """Write a ratio with the Placement API."""
        provider = f"/placement/resource_providers/{self.vcpu['uuid']}"
        for _ in range(5):
            generation = self.service.get(provider)["generation"]
            old = self.service.get(f"{provider}/inventories/VCPU")
            body = old | {"allocation_ratio": ratio, "resource_provider_generation": generation}
            answer = httpx.put(
                f"{self.service.url}{provider}/inventories/VCPU", json=body, trust_env=False
            )
            if answer.status_code != httpx.codes.CONFLICT:
                answer.raise_for_status()
                return
        raise AssertionError("the provider keeps changing")

    def set(self, ratio: float) -> None:
        """Set a ratio with Berth's own API, as an operator does."""
        (host,) = self.service.get("/berth/v1/hosts")["hosts"]
        answer = httpx.put(
            f"{self.service.url}/berth/v1/hosts/{host['name']}/ratios",
            json={"ratios": {"VCPU": ratio}},
            trust_env=False,
        )
        answer.raise_for_status()


@pytest.mark.timeout(400)
def test_who_wins_over_restarts_of_the_agent(
    processes: Processes, service: Service, tmp_path: Path
) -> None:
    """Ratios in the settings win; without them, those that an operator has set hold."""
    case = Case(processes, service, tmp_path)
    case.start()
    case.expect(1.0, "the host's own")
    case.write(3.0)
    case.expect(3.0, "set by an operator")
    case.start(cpu_allocation_ratio=6.0)
    case.expect(6.0, "the agent's settings")
    case.write(9.0)
    case.expect(6.0, "the agent's settings")
    case.start()
    case.expect(3.0, "set by an operator")
    case.set(5.0)
    case.expect(5.0, "set by an operator")
    case.set(0.0)
    case.expect(1.0, "the host's own")
