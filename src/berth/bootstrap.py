"""The composition root: which adapters stand behind which ports, process by process."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from berth.adapters.attestation.open_attestation import Access, OpenAttester
from berth.adapters.bus.local import LocalBus
from berth.adapters.ledger import migrate, open_ledger
from berth.adapters.system import LogTelemetry, RandomIds, SystemClock
from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.pool import Agent, AgentPool
from berth.api.app import build_app
from berth.api.limits import Limits
from berth.api.parts import ApiParts
from berth.api.placement.routes import PREFIX
from berth.bootstrap_placement import Process, placement_parts, provider_replica
from berth.bootstrap_process import (
    Loop,
    auth_of,
    ledger_url_of,
    make_data_dir,
    run_process,
    running,
    serve_at,
)
from berth.config.json_lists import fakes_of, read_images
from berth.config.policy_source import PolicySource
from berth.config.settings import AgentSettings, Settings
from berth.domain.errors import InvalidInputError
from berth.domain.resources import DISK_GB, MEMORY_MB, VCPU
from berth.ports.ledger import Ledger
from berth.services.aggregates import Aggregates
from berth.services.attesting import Attesting
from berth.services.building import Building
from berth.services.commands import PLACE
from berth.services.deciding import Deciding
from berth.services.flavors import Flavors
from berth.services.following import Follower
from berth.services.hosts import Hosts
from berth.services.instances import Instances
from berth.services.pending import PendingRequests
from berth.services.placing import Placing
from berth.services.provider_replica import ProviderReplica
from berth.services.ratios import Ratios, RatioSettings
from berth.services.replica import Replica
from berth.services.server_groups import ServerGroups


@dataclass(frozen=True, slots=True)
class Core:
    """What every process has: the ledger, a replica that follows it, and the machine."""

    settings: Settings
    ledger: Ledger
    replica: Replica
    follower: Follower
    policies: PolicySource
    bus: LocalBus
    clock: SystemClock
    ids: RandomIds
    telemetry: LogTelemetry

    @property
    def deciding(self) -> Deciding:
        """Decisions on this process's replica."""
        return Deciding(self.replica, self.policies, self.clock)

    @property
    def ratios(self) -> Ratios:
        """Allocation ratios, by this process's settings."""
        settings = ratio_settings_of(self.settings.agent)
        return Ratios(ledger=self.ledger, replica=self.replica, settings=settings)

    @property
    def hosts(self) -> Hosts:
        """Use cases about hosts."""
        return Hosts(
            ledger=self.ledger,
            follower=self.follower,
            replica=self.replica,
            ratios=self.ratios,
            clock=self.clock,
            ids=self.ids,
        )


def run_up(settings: Settings) -> None:
    """Run everything in one process: API, scheduler, bus, ledger and a fleet of agents."""

    async def main() -> None:
        async with _core(settings, "up") as core:
            pool = _agent_pool(core, fakes_of(settings.agent))
            core.follower.subscribe(pool)
            await pool.register()
            providers = provider_replica(core.follower)
            await core.follower.start()
            await pool.adopt()
            loops = [*_scheduler_loops(core), ("agents", pool.run), *_common_loops(core)]
            async with _running(core, loops):
                await _serve_http(core, providers)
            await pool.close()

    run_process(settings.log, main)


def run_api(settings: Settings) -> None:
    """Run the HTTP API; requests wait in the ledger for a scheduler process."""

    async def main() -> None:
        async with _core(settings, "api") as core:
            providers = provider_replica(core.follower)
            await core.follower.start()
            async with _running(core, _common_loops(core)):
                await _serve_http(core, providers)

    run_process(settings.log, main)


def run_scheduler(settings: Settings) -> None:
    """Run a scheduler that takes up what the ledger says is pending."""

    async def main() -> None:
        async with _core(settings, "scheduler") as core:
            await core.follower.start()
            core.telemetry.event("scheduler_started", hosts=len(core.replica.hosts))
            async with _running(core, [*_scheduler_loops(core), *_common_loops(core)]):
                await _until_stopped()

    run_process(settings.log, main)


def run_agent(settings: Settings) -> None:
    """Run the agents of one host, or of a made-up fleet."""

    async def main() -> None:
        fakes = fakes_of(settings.agent)
        if not fakes:
            raise InvalidInputError("agent.host", "name a host with --host, or use --fake-hosts")
        async with _core(settings, "agent") as core:
            pool = _agent_pool(core, fakes)
            core.follower.subscribe(pool)
            await pool.register()
            await core.follower.start()
            await pool.adopt()
            core.telemetry.event("agents_started", hosts=len(fakes))
            async with _running(core, [("agents", pool.run), *_common_loops(core)]):
                await _until_stopped()
            await pool.close()

    run_process(settings.log, main)


def ratio_settings_of(agent: AgentSettings) -> RatioSettings:
    """Return what an operator has set about allocation ratios."""
    return RatioSettings(
        own={
            VCPU: agent.cpu_allocation_ratio,
            MEMORY_MB: agent.ram_allocation_ratio,
            DISK_GB: agent.disk_allocation_ratio,
        },
        initial={
            VCPU: agent.initial_cpu_allocation_ratio,
            MEMORY_MB: agent.initial_ram_allocation_ratio,
            DISK_GB: agent.initial_disk_allocation_ratio,
        },
    )


def ledger_url(settings: Settings) -> str:
    """Return the URL of the ledger: the one given, or a SQLite file in the data folder."""
    return ledger_url_of(settings.ledger)


@asynccontextmanager
async def _core(settings: Settings, part: str) -> AsyncGenerator[Core]:
    clock = SystemClock()
    telemetry = LogTelemetry(part)
    policies = PolicySource(settings.policy.path)
    _check_zone(settings, policies)
    make_data_dir(settings.ledger)
    ledger = await open_ledger(ledger_url(settings))
    replica = Replica()
    try:
        yield Core(
            settings=settings,
            ledger=ledger,
            replica=replica,
            follower=Follower(ledger, clock, [replica]),
            policies=policies,
            bus=LocalBus(telemetry, encodes=False),
            clock=clock,
            ids=RandomIds(),
            telemetry=telemetry,
        )
    finally:
        await ledger.close()


def _check_zone(settings: Settings, policies: PolicySource) -> None:
    shown, kept = settings.api.default_availability_zone, policies.policy.default_availability_zone
    if shown != kept:
        raise InvalidInputError(
            "api.default_availability_zone",
            f"is {shown!r}, but AvailabilityZoneFilter, the policy's or its driver's, has {kept!r};"
            " make them equal",
        )


def _common_loops(core: Core) -> list[Loop]:
    async def watch_policy() -> None:
        await core.policies.watch(core.clock, core.settings.policy.watch_interval_s)

    return [("follower", core.follower.run), ("policy", watch_policy)]


def _scheduler_loops(core: Core) -> list[Loop]:
    placing = Placing(
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        deciding=core.deciding,
        clock=core.clock,
        attempts_max=core.settings.scheduler.claim_attempts_max,
    )
    core.bus.serve(PLACE, placing.place)
    pending = PendingRequests(
        ledger=core.ledger,
        replica=core.replica,
        placing=placing,
        clock=core.clock,
        telemetry=core.telemetry,
    )
    return [("pending", pending.run), *_attestation_loops(core)]


def _attestation_loops(core: Core) -> list[Loop]:
    settings = core.settings.attestation
    if settings.url is None:
        return []
    access = Access(settings.url, settings.auth_blob, settings.ca_file, settings.timeout_s)
    attesting = Attesting(
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        attester=OpenAttester(access, core.clock, valid_s=settings.valid_s),
        clock=core.clock,
        telemetry=core.telemetry,
    )
    return [("attestations", attesting.run)]


def _agent_pool(core: Core, fakes: Sequence[FakeHost]) -> AgentPool:
    attempts_max = core.settings.scheduler.build_attempts_max

    def agent(fake: FakeHost) -> Agent:
        driver = FakeDriver(fake, core.clock)
        building = Building(
            ledger=core.ledger, driver=driver, clock=core.clock, attempts_max=attempts_max
        )
        return Agent(fake.name, driver, building)

    return AgentPool(
        {fake.name: agent(fake) for fake in fakes},
        core.hosts,
        core.clock,
        core.telemetry,
        report_interval_s=core.settings.agent.heartbeat_interval_s,
    )


@asynccontextmanager
async def _running(core: Core, loops: Sequence[Loop]) -> AsyncGenerator[None]:
    """Run loops beside the body, and stop them after it."""
    async with running(loops, core.clock, core.telemetry):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, core.policies.reload)
        yield


async def _serve_http(core: Core, providers: ProviderReplica) -> None:
    parts = _api_parts(core, providers)
    process = Process(core.ledger, core.follower, providers, parts.auth, core.clock, core.telemetry)
    placement = placement_parts(core.settings, process, PREFIX)
    await serve_at(core.settings.api.listen, build_app(parts, placement))


def _api_parts(core: Core, providers: ProviderReplica) -> ApiParts:
    settings = core.settings
    instances = Instances(
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        bus=core.bus,
        clock=core.clock,
        default_zone=settings.api.default_availability_zone,
    )
    aggregates = Aggregates(
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        ratios=core.ratios,
        clock=core.clock,
        ids=core.ids,
    )
    return ApiParts(
        instances=instances,
        flavors=Flavors(core.ledger),
        aggregates=aggregates,
        server_groups=ServerGroups(core.ledger),
        hosts=core.hosts,
        deciding=core.deciding,
        follower=core.follower,
        replica=core.replica,
        ledger=core.ledger,
        policies=core.policies,
        auth=auth_of(settings.auth, core.clock, core.telemetry),
        clock=core.clock,
        ids=core.ids,
        telemetry=core.telemetry,
        providers=providers,
        limits=Limits(body_bytes_max=settings.api.body_bytes_max),
        images=read_images(settings.api.images),
        default_zone=settings.api.default_availability_zone,
    )


async def migrate_ledger(settings: Settings) -> None:
    """Make the ledger's tables, or bring them up to date."""
    make_data_dir(settings.ledger)
    await migrate(ledger_url(settings))


async def _until_stopped() -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
