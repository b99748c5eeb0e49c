"""Let the real Placement answer requests: JSON lines in, JSON lines out.

Run it with the Python of a virtualenv that holds `placement-requirements.lock`; it imports
Placement and nothing of Berth. The first line out says the version. Then every line in is one of

    {"empty": true}                     forget all providers, consumers and allocations
    {"method": "GET", "path": "/...", "version": "1.39", "body": {...}}

and every line out is `{"status": 200, "json": ...}`, until the input ends. The WSGI application is
called in this process, on SQLite in memory, by an administrator. Names of classes and traits that
were made stay, as Placement keeps them in mind for as long as it runs.

Exit codes: 0 the input has ended; 3 Placement cannot be imported.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import sys
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    # Placement carries no types, so these names only tell the reader which of its values is meant.
    Application: TypeAlias = Any  # the WSGI application of placement.deploy
    Json: TypeAlias = dict[str, Any]

EXIT_OK = 0
EXIT_PLACEMENT_MISSING = 3

KEPT = frozenset({"alembic_version", "consumer_types", "resource_classes", "traits"})
FAILED = 500


def load_placement() -> tuple[Application, Callable[[], None]]:
    """Return the application on a new database, and what empties that."""
    from oslo_config import cfg  # noqa: PLC0415 - so that a missing package is told in one place
    from oslo_policy import opts  # noqa: PLC0415
    from placement import conf, context, db_api, deploy  # noqa: PLC0415
    from placement.db.sqlalchemy import models  # noqa: PLC0415

    config = cfg.ConfigOpts()
    conf.register_opts(config)
    config.set_override("auth_strategy", "noauth2", group="api")
    config.set_override("connection", "sqlite://", group="placement_database")
    config.set_override("sync_on_startup", True, group="placement_database")  # noqa: FBT003
    config([], default_config_files=[])  # not before, as it misses the connection otherwise
    opts.set_defaults(config)
    config.set_override("enforce_new_defaults", False, group="oslo_policy")  # noqa: FBT003
    db_api.configure(config)
    application = deploy.loadapp(config)

    tables = [one for one in models.BASE.metadata.sorted_tables if one.name not in KEPT]

    @db_api.placement_context_manager.writer
    def delete_rows(writing: context.RequestContext) -> None:
        for table in reversed(tables):
            writing.session.execute(table.delete())

    def empty() -> None:
        made = context.RequestContext()
        made.config = config
        delete_rows(made)

    return application, empty


def answer(application: Application, request: Json) -> Json:
    """Send one request to the application. Returns its status and what it says."""
    import webob  # noqa: PLC0415 - it comes with Placement

    sent = webob.Request.blank(request["path"], method=request["method"])
    sent.headers["x-auth-token"] = "admin"
    sent.headers["openstack-api-version"] = f"placement {request['version']}"
    sent.headers["accept"] = "application/json"
    if request.get("body") is not None:
        sent.body = json.dumps(request["body"]).encode()
        sent.content_type = "application/json"
    try:
        got = sent.get_response(application)
    except Exception as error:  # noqa: BLE001 - whatever it raises, a web server answers 500
        return {"status": FAILED, "json": repr(error)}
    try:
        return {"status": got.status_int, "json": json.loads(got.body) if got.body else None}
    except ValueError:
        return {"status": got.status_int, "json": got.text}


def main() -> int:
    """Answer requests until there are no more. Returns the exit code."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # stdout carries the answers and nothing else
        try:
            application, empty = load_placement()
        except ImportError as error:
            sys.stderr.write(f"Placement cannot be imported: {error}\n")
            return EXIT_PLACEMENT_MISSING
        version = importlib.metadata.version("openstack-placement")
        print(json.dumps({"version": version}), file=out, flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            if request.get("empty"):
                empty()
                said: Json = {"status": 204, "json": None}
            else:
                said = answer(application, request)
            print(json.dumps(said), file=out, flush=True)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
