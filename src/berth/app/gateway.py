"""The gateway of a process, which writes to the ledger on behalf of the agents of hosts."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from berth.adapters.gateway.session import SessionList
from berth.adapters.system import NoMetrics
from berth.app.core import Core
from berth.app.messaging import broker_of
from berth.app.run import Loop, make_folder
from berth.config.control_keys import ControlKeyFile
from berth.config.settings import Settings
from berth.ports.measures import GATEWAY_SESSIONS
from berth.ports.telemetry import Reading
from berth.services.gateway.alternates import Alternates
from berth.services.gateway.assignments import Assignments
from berth.services.gateway.gateway import Gateway
from berth.services.gateway.host_notices import HostNotices
from berth.services.gateway.host_reports import HostReports
from berth.services.gateway.identities import HostIdentities
from berth.services.gateway.in_progress import InstancesInProgress
from berth.services.gateway.outcomes import Outcomes
from berth.services.gateway.self_audit import SelfAudit
from berth.services.gateway.sessions import SessionServices


def host_gateway(core: Core) -> Gateway:
    """Return the gateway of a process that has access to the ledger.

    The gateway follows the change feed, so the follower must not run yet.
    """
    metrics = core.observation.metrics or NoMetrics()
    notices = HostNotices(
        ledger=core.ledger,
        replica=core.replica,
        clock=core.clock,
        telemetry=core.telemetry,
        metrics=metrics,
    )
    audits = SelfAudit(
        ledger=core.ledger,
        replica=core.replica,
        reports=HostReports(core.hosts, core.replica, core.ratios),
        notices=notices,
        clock=core.clock,
        telemetry=core.telemetry,
        metrics=metrics,
        service_down_time_s=lambda: core.policies.policy.service_down_time_s,
        default_zone=lambda: core.policies.policy.default_availability_zone,
    )
    in_progress = InstancesInProgress()
    core.follower.subscribers.append(in_progress)
    outcomes = Outcomes(
        ledger=core.ledger,
        clock=core.clock,
        attempts_max=core.settings.scheduler.build_attempts_max,
        alternates=Alternates(
            follower=core.follower,
            replica=core.replica,
            clock=core.clock,
            service_down_time_s=lambda: core.policies.policy.service_down_time_s,
            default_zone=lambda: core.policies.policy.default_availability_zone,
        ),
        half_life_s=core.settings.agent.build_failure_half_life_s,
        service_of=core.replica.service,
        in_progress=in_progress,
    )
    return Gateway(
        ledger=core.ledger,
        clock=core.clock,
        hosts=core.hosts,
        liveness=core.liveness,
        outcomes=outcomes,
        audits=audits,
        notices=notices,
    )


async def _nothing() -> None:
    """Do nothing: the server of the API itself closes the connections of agents."""


@dataclass(frozen=True, slots=True)
class AgentEndpoint:
    """The parts of a process that serve agents on other machines.

    Attributes:
        identities: the keys of hosts.
        sessions: the sessions of the agents that are connected to this process.
        loops: the background loops that serve agents over the broker, if there is one.
        finish: tells agents that the process is stopping; await it before the loops end.
    """

    identities: HostIdentities
    sessions: SessionList
    loops: tuple[Loop, ...] = ()
    finish: Callable[[], Awaitable[None]] = _nothing


def open_agent_endpoint(core: Core, gateway: Gateway) -> AgentEndpoint:
    """Return the parts that serve agents; the follower that they subscribe to must not run yet.

    Raises:
        InvalidInputError: the settings name no usable broker, or a file of keys cannot be read or
            created.
    """
    assignments = Assignments(core.ledger, core.replica)
    identities = HostIdentities(core.ledger, core.clock, os.urandom)
    bus = core.messaging.bus
    services = SessionServices(gateway, assignments, identities, core.liveness, bus)
    sessions = SessionList(services, core.clock, core.telemetry, os.urandom)
    identities.changed = sessions.check_keys
    core.follower.subscribers.extend((assignments, identities))
    core.health.further.append(lambda: [Reading(GATEWAY_SESSIONS, len(sessions.by_host))])
    if not core.settings.gateway.rabbitmq:
        return AgentEndpoint(identities, sessions)
    return _endpoint_with_broker(core, identities, sessions)


def _endpoint_with_broker(
    core: Core, identities: HostIdentities, sessions: SessionList
) -> AgentEndpoint:
    broker = broker_of(core.settings.bus)
    from berth.adapters.bus.rabbitmq import BrokerConnection  # noqa: PLC0415 - see `broker_of`
    from berth.adapters.gateway.rabbitmq import BrokerSessions  # noqa: PLC0415 - likewise

    keys = ControlKeyFile(_control_key_path(core.settings), core.clock, core.telemetry)
    sessions.control_keys = keys.public_keys
    # A separate connection, so that no command of the bus waits behind the views of a host.
    connection = BrokerConnection(broker, core.telemetry, SystemRandom())
    brokered = BrokerSessions(sessions, connection, keys)
    loops: tuple[Loop, ...] = (("agents over the broker", connection.run),)
    return AgentEndpoint(identities, sessions, loops, brokered.finish)


def _control_key_path(settings: Settings) -> Path:
    path = settings.gateway.key_file
    if path is not None:
        return path
    make_folder(settings.ledger.data_dir)
    return settings.ledger.data_dir / "control-keys"
