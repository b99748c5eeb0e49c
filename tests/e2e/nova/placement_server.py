"""Serves a real Placement on loopback; the interpreter of `.venv-placement` runs this.

The arguments are a port and the URL of an empty database. Without Keystone, the token `admin` is
that of an administrator. The process prints `ready` when it serves.
"""

import socketserver
import sys
import warnings
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

warnings.simplefilter("ignore")

from oslo_config import cfg  # type: ignore[import-not-found] # noqa: E402 - .venv-placement has it
from oslo_policy import opts  # type: ignore[import-not-found] # noqa: E402
from placement import conf, db_api, deploy  # type: ignore[import-not-found] # noqa: E402


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    """Serves each request in a thread."""

    daemon_threads = True
    request_queue_size = 64


class _Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main(port: str, url: str) -> None:
    """Create the tables, and serve until the process is killed."""
    config = cfg.ConfigOpts()
    conf.register_opts(config)
    config.set_override("auth_strategy", "noauth2", group="api")
    config.set_override("connection", url, group="placement_database")
    config.set_override("sync_on_startup", True, group="placement_database")
    config([], default_config_files=[])  # after the overrides, as it needs the connection
    opts.set_defaults(config)
    config.set_override("enforce_new_defaults", False, group="oslo_policy")
    db_api.configure(config)
    application = deploy.loadapp(config)
    with make_server("127.0.0.1", int(port), application, _Server, _Quiet) as server:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
