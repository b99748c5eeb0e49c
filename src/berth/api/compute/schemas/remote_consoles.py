"""The bodies of requests for consoles, and of the responses."""

from typing import Literal

from berth.api.codec import Model, View


class VncConsole(Model):
    """Arguments of `os-getVNCConsole`."""

    type: Literal["novnc", "xvpvnc"]


class RemoteConsole(Model):
    """The protocol and the type of a console; Berth has only `vnc` with `novnc`."""

    protocol: Literal["vnc", "spice", "serial", "rdp", "mks"]
    type: Literal["novnc", "xvpvnc", "spice-html5", "spice-direct", "serial", "rdp-html5", "webmks"]


class RemoteConsoleBody(Model):
    """The request for a console."""

    remote_console: RemoteConsole


class RemoteConsoleView(View):
    """A console and the URL that opens it."""

    protocol: str
    type: str
    url: str


class RemoteConsoleAnswer(View):
    """The response with a console."""

    remote_console: RemoteConsoleView


class TokenView(View):
    """The guest that a token opens.

    A guest's VNC server has no port, so `port` is 0: the agent of its host connects to it.
    """

    instance_uuid: str
    host: str
    port: int
    internal_access_path: str | None


class TokenAnswer(View):
    """The response with the guest that a token opens."""

    console: TokenView
