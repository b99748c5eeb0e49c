"""The processes of Berth: everything in one process, the API, a scheduler, or agents."""

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import PurePath

from berth.adapters.http_server import TlsFiles
from berth.adapters.system import NoMetrics
from berth.api.app import build_app
from berth.api.console_parts import NOVNC_PAGE, ConsoleParts
from berth.api.limits import RequestLimits
from berth.api.parts import ApiParts
from berth.api.placement.routes import PREFIX
from berth.app.agents import agent_loops, agent_pool, instance_caster
from berth.app.core import (
    Core,
    common_loops,
    open_core,
    running_core,
    stop_signals,
)
from berth.app.gateway import AgentEndpoint, host_gateway, open_agent_endpoint
from berth.app.placement import PlacementProcess, placement_parts, provider_replica
from berth.app.remote_agents import run_remote_agents
from berth.app.run import authentication_of, run_process, serve_at
from berth.app.scheduler import instance_tracker, notify_changes, scheduler_loops
from berth.app.virt import open_drivers
from berth.app.zones import ZoneContext, open_zone, zone_loops, zone_parts
from berth.config.agent_settings import InstanceSource
from berth.config.api_settings import ApiSettings, ConsoleSettings, CreateMode
from berth.config.json_lists import read_images
from berth.config.settings import Settings
from berth.domain.errors import InvalidInputError
from berth.services.crypto.passwords import new_password
from berth.services.fleet.aggregates import Aggregates
from berth.services.replica.provider_replica import ProviderReplica
from berth.services.requests.quotas import CreateDefaults, QuotaLimits, Quotas
from berth.services.servers.flavors import Flavors
from berth.services.servers.instances import Instances
from berth.services.servers.key_pairs import KeyPairs
from berth.services.servers.operations import Operations
from berth.services.servers.server_groups import ServerGroups
from berth.services.servers.server_images import ServerImages


def run_up(settings: Settings) -> None:
    """Run everything in one process: API, scheduler, bus, ledger and agents.

    Raises:
        InvalidInputError: a setting is invalid, or a file or an address that it names cannot be
            used.
        PolicyError: the policy file is invalid.
        LedgerError: the ledger cannot be opened or migrated.
        UnavailableError: the ledger cannot be reached.
    """

    async def main() -> None:
        async with AsyncExitStack() as stack:
            core = await stack.enter_async_context(open_core(settings, "up"))
            drivers = await stack.enter_async_context(open_drivers(settings, core.clock))
            gateway = host_gateway(core)
            pool = agent_pool(core, gateway, drivers)
            core.follower.subscribers.append(pool)
            await pool.register()
            providers = provider_replica(core.follower)
            core.hosts.compare_with(providers)
            zone = await stack.enter_async_context(open_zone(core))
            agents = open_agent_endpoint(core, gateway)
            notify_changes(core)
            # The agents and the scheduler share one replica in this process, so comparing casts
            # with it would prove nothing. Casts are sent only if decisions are to use them.
            casts = settings.tracking.instance_information is InstanceSource.CASTS
            tracker = instance_tracker(core) if casts else None
            caster = instance_caster(core, drivers) if casts else None
            # All subscribers are registered before the start, so that each gets the first snapshot.
            await core.follower.start()
            await core.liveness.share()
            # The agents adopt the instances that this snapshot has on their hosts.
            await pool.adopt()
            working = [
                *scheduler_loops(core, tracker, zone),
                *agent_loops(core, pool, gateway, caster),
            ]
            loops = [*working, *zone_loops(zone), *common_loops(core), *agents.loops]
            async with running_core(core, loops):
                await _serve_http(core, providers, zone, agents)
                # This must come before the loops end, since flushing needs the loop that holds the
                # connection to the broker.
                await core.messaging.finish()
            await pool.close()

    run_process(settings.log, main)


def run_api(settings: Settings) -> None:
    """Run the HTTP API, which calls schedulers over the bus, or leaves requests pending.

    Raises:
        InvalidInputError: a setting is invalid, or a file or an address that it names cannot be
            used.
        PolicyError: the policy file is invalid.
        LedgerError: the ledger cannot be opened or migrated.
        UnavailableError: the ledger cannot be reached.
    """

    async def main() -> None:
        async with open_core(settings, "api") as core, open_zone(core) as zone:
            providers = provider_replica(core.follower)
            core.hosts.compare_with(providers)
            agents = open_agent_endpoint(core, host_gateway(core))
            await core.follower.start()
            await core.liveness.share()
            loops = [*zone_loops(zone), *common_loops(core), *agents.loops]
            async with running_core(core, loops):
                await _serve_http(core, providers, zone, agents)
                await core.messaging.finish()

    run_process(settings.log, main)


def run_scheduler(settings: Settings) -> None:
    """Run a scheduler that also places the pending requests of the ledger.

    Raises:
        InvalidInputError: a setting is invalid, or a file or an address that it names cannot be
            used.
        PolicyError: the policy file is invalid.
        LedgerError: the ledger cannot be opened or migrated.
        UnavailableError: the ledger cannot be reached.
    """

    async def main() -> None:
        async with open_core(settings, "scheduler") as core, open_zone(core) as zone:
            notify_changes(core)
            tracker = instance_tracker(core)
            await core.follower.start()
            await core.liveness.share()
            loops = [*scheduler_loops(core, tracker, zone), *zone_loops(zone), *common_loops(core)]
            stopped = stop_signals()
            core.telemetry.event("scheduler_started", hosts=len(core.replica.hosts))
            async with running_core(core, loops):
                await stopped.wait()
                await core.messaging.finish()

    run_process(settings.log, main)


def run_agent(settings: Settings) -> None:
    """Run the agents of one host, or of a simulated fleet.

    With `agent.gateway_url`, the agents connect to the API or to the broker, and have no access to
    the ledger. Without it, this process opens the ledger itself.

    Raises:
        InvalidInputError: a setting is invalid, or a file or an address that it names cannot be
            used.
        PolicyError: the policy file is invalid.
        LedgerError: the ledger cannot be opened or migrated.
        UnavailableError: the ledger cannot be reached.
    """
    if settings.agent.gateway_url is not None:
        run_remote_agents(settings)
        return

    async def main() -> None:
        async with AsyncExitStack() as stack:
            core = await stack.enter_async_context(open_core(settings, "agent"))
            drivers = await stack.enter_async_context(open_drivers(settings, core.clock))
            if not drivers:
                reason = "is missing; name a host with --host, or use --fake-hosts"
                raise InvalidInputError("agent.host", reason)
            gateway = host_gateway(core)
            pool = agent_pool(core, gateway, drivers)
            core.follower.subscribers.append(pool)
            await pool.register()
            caster = instance_caster(core, drivers)
            await core.follower.start()
            await core.liveness.share()
            await pool.adopt()
            stopped = stop_signals()
            core.telemetry.event("agents_started", hosts=len(drivers))
            loops = [*agent_loops(core, pool, gateway, caster), *common_loops(core)]
            async with running_core(core, loops):
                await stopped.wait()
            await pool.close()

    run_process(settings.log, main)


async def _serve_http(
    core: Core, providers: ProviderReplica, zone: ZoneContext | None, agents: AgentEndpoint
) -> None:
    parts = _api_parts(core, providers)
    parts = replace(
        parts,
        zones=zone_parts(core, zone),
        identities=agents.identities,
        control_keys=agents.sessions.control_keys,
        checks=core.health,
        page=core.observation.page(parts.auth),
        tracer=core.observation.tracer,
    )
    process = PlacementProcess(
        core.ledger, core.follower, providers, parts.auth, core.clock, core.telemetry
    )
    placement = placement_parts(core.settings, process, PREFIX)
    app = core.observation.around(build_app(parts, placement), core.audit_trail.watchers)
    settings = core.settings.api
    policy = core.observation.connections(settings, core.telemetry)
    await serve_at(settings.listen, app, _tls_of(settings), agents.sessions, policy)
    await agents.finish()


def _tls_of(settings: ApiSettings) -> TlsFiles | None:
    certificate, key = settings.tls_certificate, settings.tls_key
    return None if certificate is None or key is None else TlsFiles(certificate, key)


def _api_parts(core: Core, providers: ProviderReplica) -> ApiParts:
    settings = core.settings
    quota_limits = QuotaLimits(core.replica, settings.quota.limits)
    instances = Instances(
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        bus=core.messaging.bus,
        clock=core.clock,
        terms=CreateDefaults(settings.api.default_availability_zone, quota_limits),
    )
    metrics = core.observation.metrics or NoMetrics()
    callers = authentication_of(settings, core.clock, core.telemetry, metrics)
    if callers.keystone is not None:
        core.health.further.append(callers.keystone.read)
    return ApiParts(
        instances=instances,
        operations=_operations(core, quota_limits),
        bus=core.messaging.bus,
        flavors=Flavors(core.ledger),
        aggregates=_aggregates(core),
        server_groups=ServerGroups(core.ledger, quota_limits),
        server_images=_server_images(core, quota_limits),
        key_pairs=KeyPairs(ledger=core.ledger, clock=core.clock, quota_limits=quota_limits),
        quotas=Quotas(ledger=core.ledger, follower=core.follower, quota_limits=quota_limits),
        hosts=core.hosts,
        decision_service=core.decision_service,
        follower=core.follower,
        replica=core.replica,
        liveness=core.liveness,
        ledger=core.ledger,
        policies=core.policies,
        auth=callers.auth,
        directory=callers.directory,
        tokens=callers.tokens,
        keystone_url=None if callers.keystone is None else callers.keystone.uri,
        region=settings.auth.region,
        clock=core.clock,
        ids=core.ids,
        telemetry=core.telemetry,
        providers=providers,
        limits=RequestLimits(body_bytes_max=settings.api.body_bytes_max),
        consoles=_consoles(settings.console),
        images=read_images(settings.api.images),
        default_zone=settings.api.default_availability_zone,
        soft_deletes=settings.scheduler.reclaim_instance_interval_s > 0,
        single_shot=settings.api.create is CreateMode.SINGLE_SHOT,
        new_password=_new_password(settings.api),
        refusal_detail=settings.api.refusals,
    )


def _consoles(settings: ConsoleSettings) -> ConsoleParts:
    """Return the settings of consoles.

    Raises:
        InvalidInputError: the folder of noVNC has no page.
    """
    folder = settings.novnc_dir
    if folder is not None and not (folder / PurePath(NOVNC_PAGE).name).is_file():
        reason = f"{folder} has no {PurePath(NOVNC_PAGE).name}; name the folder of noVNC's files"
        raise InvalidInputError("console.novnc_dir", reason)
    return ConsoleParts(
        settings.token_lifetime_s, settings.novnc_url, folder, settings.allowed_origins
    )


def _server_images(core: Core, quota_limits: QuotaLimits) -> ServerImages:
    return ServerImages(
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        clock=core.clock,
        quota_limits=quota_limits,
    )


def _operations(core: Core, quota_limits: QuotaLimits) -> Operations:
    return Operations(
        ledger=core.ledger,
        replica=core.replica,
        clock=core.clock,
        resizes_in_place=core.settings.scheduler.resize_in_place,
        quota_limits=quota_limits,
        liveness=core.liveness,
    )


def _new_password(settings: ApiSettings) -> Callable[[], str] | None:
    return partial(new_password, os.urandom) if settings.enable_instance_password else None


def _aggregates(core: Core) -> Aggregates:
    return Aggregates(
        ledger=core.ledger,
        follower=core.follower,
        replica=core.replica,
        ratios=core.ratios,
        clock=core.clock,
        ids=core.ids,
        default_zone=core.settings.api.default_availability_zone,
    )
