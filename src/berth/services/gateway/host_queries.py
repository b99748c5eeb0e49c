"""Serves the queries that reach a host through the bus: consoles, diagnostics, uptimes."""

from collections.abc import Callable

from berth.ports.bus import Bus
from berth.ports.gateway import HostQueries
from berth.services.fleet.uptimes import UPTIME, UptimeAsked, UptimeTold
from berth.services.servers.consoles import serve_console
from berth.services.servers.diagnostics import DIAGNOSTICS, DiagnosticsAsked, DiagnosticsTold
from berth.services.servers.vnc_consoles import VNC


def serve_queries(bus: Bus, host: str, queries: HostQueries) -> Callable[[], None]:
    """Serve queries about a host and its guests; return the function that ends the service."""

    async def tell_diagnostics(asked: DiagnosticsAsked) -> DiagnosticsTold:
        return DiagnosticsTold(await queries.diagnostics(asked.instance_uuid))

    async def tell_uptime(_: UptimeAsked) -> UptimeTold:
        return UptimeTold(await queries.uptime())

    stops = (
        serve_console(bus, host, queries),
        bus.serve(DIAGNOSTICS, tell_diagnostics, server=host),
        bus.serve(UPTIME, tell_uptime, server=host),
        bus.serve(VNC, queries.vnc, server=host),
    )

    def stop() -> None:
        for one in stops:
            one()

    return stop
