"""The composition root: which adapters stand behind which ports, process by process."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from berth.adapters.attestation.open_attestation import Access, OpenAttester
from berth.adapters.ledger import migrate, open_ledger
from berth.adapters.system import LogTelemetry, RandomIds, SystemClock
from berth.agent.pool import Agent, AgentPool, Pace
from berth.api.app import build_app
from berth.api.limits import Limits
from berth.api.parts import ApiParts
from berth.api.placement.routes import PREFIX
from berth.bootstrap_bus import Wires, lay_wires
from berth.bootstrap_observed import deciding_of, hosts_of, placing_of, seen_parts, work_of
from berth.bootstrap_observing import Observation, observe
from berth.bootstrap_placement import Process, placement_parts, provider_replica
from berth.bootstrap_process import (
    Loop,
    callers_of,
    ledger_url_of,
    make_data_dir,
    run_process,
    running,
    serve_at,
)
from berth.bootstrap_virt import open_drivers
from berth.config.json_lists import read_images
from berth.config.policy_source import PolicySource
from berth.config.ratio_settings import ratio_settings_of
from berth.config.settings import Settings
from berth.config.virt_settings import AgentDriver
from berth.domain.errors import InvalidInputError
from berth.ports.ledger import Ledger
from berth.ports.virt import Driver
from berth.services.aggregates import Aggregates
from berth.services.announcing import AnnouncedPlacing
from berth.services.attesting import Attesting
from berth.services.change_notifications import ChangeNotifications
from berth.services.commands import PLACE, Places
from berth.services.consoles import serve_console
from berth.services.deciding import Deciding
from berth.services.flavors import Flavors
from berth.services.following import Follower
from berth.services.host_work import Bench
from berth.services.hosts import Hosts
from berth.services.instances import Instances
from berth.services.operations import Operations
from berth.services.pending import PendingRequests
from berth.services.provider_replica import ProviderReplica
from berth.services.ratios import Ratios
from berth.services.replica import Replica
from berth.services.server_groups import ServerGroups
from berth.services.vitals import Fleet, Vitals


@dataclass(frozen=True, slots=True)
class Core:
    """What every process has: the ledger, a replica that follows it, and the machine."""

    settings: Settings
    ledger: Ledger
    replica: Replica
    follower: Follower
    policies: PolicySource
    wires: Wires
    clock: SystemClock
    ids: RandomIds
    telemetry: LogTelemetry
    observation: Observation
    vitals: Vitals

    @property
    def deciding(self) -> Deciding:
        """Decisions on this process's replica."""
        return deciding_of(self.observation, self.replica, self.policies, self.clock)

    @property
    def ratios(self) -> Ratios:
        """Allocation ratios, by this process's settings."""
        said = ratio_settings_of(self.settings.agent)
        return Ratios(ledger=self.ledger, replica=self.replica, settings=said)

    @property
    def hosts(self) -> Hosts:
        """Use cases about hosts."""
        return hosts_of(
            self.observation,
            ledger=self.ledger,
            follower=self.follower,
            replica=self.replica,
            ratios=self.ratios,
            ids=self.ids,
        )


def run_up(settings: Settings) -> None:
    """Run everything in one process: API, scheduler, bus, ledger and a fleet of agents."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            core = await stack.enter_async_context(_core(settings, "up"))
            drivers = await stack.enter_async_context(open_drivers(settings, core.clock))
            pool = _agent_pool(core, drivers)
            core.follower.subscribe(pool)
            await pool.register()
            providers = provider_replica(core.follower)
            _tell_changes(core)
            await core.follower.start()
            await pool.adopt()
            loops = [*_scheduler_loops(core), *_agent_loops(core, pool), *_common_loops(core)]
            async with _running(core, loops):
                await _serve_http(core, providers)
                await core.wires.finish()
            await pool.close()

    run_process(settings.log, main)


def run_api(settings: Settings) -> None:
    """Run the HTTP API; a scheduler is asked over the bus, or requests wait in the ledger."""

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
            _tell_changes(core)
            await core.follower.start()
            core.telemetry.event("scheduler_started", hosts=len(core.replica.hosts))
            async with _running(core, [*_scheduler_loops(core), *_common_loops(core)]):
                await _until_stopped()
                await core.wires.finish()

    run_process(settings.log, main)


def run_agent(settings: Settings) -> None:
    """Run the agents of one host, or of a made-up fleet."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            core = await stack.enter_async_context(_core(settings, "agent"))
            drivers = await stack.enter_async_context(open_drivers(settings, core.clock))
            if not drivers:
                reason = "name a host with --host, or use --fake-hosts"
                raise InvalidInputError("agent.host", reason)
            pool = _agent_pool(core, drivers)
            core.follower.subscribe(pool)
            await pool.register()
            await core.follower.start()
            await pool.adopt()
            core.telemetry.event("agents_started", hosts=len(drivers))
            async with _running(core, [*_agent_loops(core, pool), *_common_loops(core)]):
                await _until_stopped()
            await pool.close()

    run_process(settings.log, main)


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
    observation = observe(settings, part, clock)
    ledger = await open_ledger(ledger_url(settings), on_batch=observation.on_batch)
    replica = Replica()
    follower = Follower(ledger, clock, [replica])
    try:
        yield Core(
            settings=settings,
            ledger=ledger,
            replica=replica,
            follower=follower,
            policies=policies,
            wires=lay_wires(
                settings.bus,
                part,
                telemetry,
                calls=part in {"api", "scheduler", "agent"},
                notifies=part in {"up", "scheduler"},
            ),
            clock=clock,
            ids=RandomIds(),
            telemetry=telemetry,
            observation=observation,
            vitals=Vitals(
                ledger=ledger,
                follower=follower,
                clock=clock,
                fleet=Fleet(replica, policies, lambda: policies.policy.service_down_time_s),
                lag_s_max=settings.health.lag_s_max,
            ),
        )
    finally:
        await ledger.close()
        await asyncio.to_thread(observation.finish)


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

    loops: list[Loop] = [("follower", core.follower.run), ("policy", watch_policy)]
    return [*loops, *core.wires.loops, *core.observation.loops(core.vitals)]


def _tell_changes(core: Core) -> None:
    """Have what is committed told to whoever reads notifications."""
    if core.wires.common_notifier is not None:
        core.follower.subscribe(ChangeNotifications(core.wires.common_notifier))


def _scheduler_loops(core: Core) -> list[Loop]:
    placing: Places = placing_of(
        core.observation,
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        deciding=core.deciding,
        attempts_max=core.settings.scheduler.claim_attempts_max,
    )
    if core.wires.notifier is not None:
        placing = AnnouncedPlacing(placing, core.wires.notifier)
    core.wires.bus.serve(PLACE, placing.place)
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


def _agent_loops(core: Core, pool: AgentPool) -> list[Loop]:
    """Return what agents do by themselves; made-up hosts change nothing that they would hint at."""
    loops: list[Loop] = [("agents", pool.run)]
    if core.settings.agent.driver is not AgentDriver.FAKE:
        loops.append(("hints", pool.listen))
    return loops


def _agent_pool(core: Core, drivers: Mapping[str, Driver]) -> AgentPool:
    attempts_max = core.settings.scheduler.build_attempts_max
    stop_grace_s = core.settings.virt.stop_grace_s

    def agent(name: str, driver: Driver) -> Agent:
        serve_console(core.wires.bus, name, driver)
        bench = Bench(
            name,
            core.ledger,
            driver,
            core.clock,
            attempts_max=attempts_max,
            stop_grace_s=stop_grace_s,
        )
        return Agent(name, driver, work_of(core.observation, bench))

    return AgentPool(
        {name: agent(name, driver) for name, driver in drivers.items()},
        core.hosts,
        core.clock,
        core.telemetry,
        Pace(
            report_interval_s=core.settings.agent.heartbeat_interval_s,
            reconcile_interval_s=core.settings.agent.reconcile_interval_s,
        ),
    )


@asynccontextmanager
async def _running(core: Core, loops: Sequence[Loop]) -> AsyncGenerator[None]:
    """Run loops beside the body, and stop them after it."""
    async with running(loops, core.clock, core.telemetry):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, core.policies.reload)
        yield


async def _serve_http(core: Core, providers: ProviderReplica) -> None:
    parts = seen_parts(core.observation, _api_parts(core, providers), core.vitals)
    process = Process(core.ledger, core.follower, providers, parts.auth, core.clock, core.telemetry)
    placement = placement_parts(core.settings, process, PREFIX)
    app = core.observation.around(build_app(parts, placement))
    await serve_at(core.settings.api.listen, app)


def _api_parts(core: Core, providers: ProviderReplica) -> ApiParts:
    settings = core.settings
    instances = Instances(
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        bus=core.wires.bus,
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
    callers = callers_of(settings, core.clock, core.telemetry)
    operations = Operations(
        ledger=core.ledger,
        replica=core.replica,
        clock=core.clock,
        resizes_in_place=settings.scheduler.resize_in_place,
    )
    return ApiParts(
        instances=instances,
        operations=operations,
        bus=core.wires.bus,
        flavors=Flavors(core.ledger),
        aggregates=aggregates,
        server_groups=ServerGroups(core.ledger),
        hosts=core.hosts,
        deciding=core.deciding,
        follower=core.follower,
        replica=core.replica,
        ledger=core.ledger,
        policies=core.policies,
        auth=callers.auth,
        directory=callers.directory,
        tokens=callers.tokens,
        region=settings.auth.region,
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
