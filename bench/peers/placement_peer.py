"""Answer requests with OpenStack Placement: JSON lines in, JSON lines out.

Run it with the Python of a virtualenv that holds `placement-requirements.lock`; it imports
Placement and nothing of Berth. The first line out says the version. Every line in is one of

    {"do": "empty"}     delete everything except the standard names
    {"do": "sweep"}     delete consumers without allocations, which refused requests leave behind
    {"method": "GET", "path": "/...", "headers": {...}, "content": "..."}

and every line out is `{"status": 200, "headers": {...}, "text": "..."}`, until the input ends. The
WSGI application is called in this process, on SQLite in memory. Names of headers are in lower case.

Exit codes: 0 the input has ended, 3 Placement cannot be imported.
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

    # Placement has no type annotations; these names only tell readers which value is meant.
    Application: TypeAlias = Any  # the WSGI application of placement.deploy
    Json: TypeAlias = dict[str, Any]

EXIT_OK = 0
EXIT_PLACEMENT_MISSING = 3

KEPT = frozenset({"alembic_version", "resource_classes", "traits"})
MADE = "CUSTOM_%"  # pattern of names that are not standard
FAILED = 500


def load_placement() -> tuple[Application, dict[str, Callable[[], None]]]:
    """Return the application on a new database, and functions for the `do` lines, by name."""
    import sqlalchemy  # noqa: PLC0415 - it comes with Placement
    from oslo_config import cfg  # noqa: PLC0415 - `main` reports a missing package
    from oslo_policy import opts  # noqa: PLC0415
    from placement import conf, context, db_api, deploy  # noqa: PLC0415
    from placement.db.sqlalchemy import models  # noqa: PLC0415

    config = cfg.ConfigOpts()
    conf.register_opts(config)
    config.set_override("auth_strategy", "noauth2", group="api")
    config.set_override("connection", "sqlite://", group="placement_database")
    config.set_override("sync_on_startup", True, group="placement_database")  # noqa: FBT003
    config([], default_config_files=[])  # after the overrides, as it needs the connection
    opts.set_defaults(config)
    config.set_override("enforce_new_defaults", False, group="oslo_policy")  # noqa: FBT003
    db_api.configure(config)
    application = deploy.loadapp(config)

    tables = [one for one in models.BASE.metadata.sorted_tables if one.name not in KEPT]

    @db_api.placement_context_manager.writer
    def delete_rows(writing: context.RequestContext) -> None:
        for table in reversed(tables):
            writing.session.execute(table.delete())
        for named in (models.ResourceClass.__table__, models.Trait.__table__):
            writing.session.execute(named.delete().where(named.c.name.like(MADE)))

    @db_api.placement_context_manager.writer
    def delete_consumers(writing: context.RequestContext) -> None:
        consumers, held = models.Consumer.__table__, models.Allocation.__table__.c.consumer_id
        is_held = consumers.c.uuid == held
        writing.session.execute(consumers.delete().where(~sqlalchemy.exists().where(is_held)))

    def new_context() -> context.RequestContext:
        made = context.RequestContext()
        made.config = config
        return made

    return application, {
        "empty": lambda: delete_rows(new_context()),
        "sweep": lambda: delete_consumers(new_context()),
    }


def answer(application: Application, request: Json) -> Json:
    """Send one request to the application and return its answer: status, headers and text."""
    import webob  # noqa: PLC0415 - it comes with Placement

    sent = webob.Request.blank(request["path"], method=request["method"])
    sent.headers.update(request["headers"])
    if request["content"] is not None:
        sent.body = request["content"].encode()
    try:
        got = sent.get_response(application)
    except Exception as error:  # noqa: BLE001 - whatever it raises, a web server answers 500
        return {"status": FAILED, "headers": {}, "text": repr(error)}
    headers = {name.lower(): value for name, value in got.headers.items()}
    return {"status": got.status_int, "headers": headers, "text": got.body.decode()}


def main() -> int:
    """Answer requests until the input ends, and return the exit code."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # stdout carries the answers and nothing else
        try:
            application, deeds = load_placement()
        except ImportError as error:
            sys.stderr.write(f"Placement cannot be imported: {error}\n")
            return EXIT_PLACEMENT_MISSING
        version = importlib.metadata.version("openstack-placement")
        print(json.dumps({"version": version}), file=out, flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            if "do" in request:
                deeds[request["do"]]()
                said: Json = {"status": 204, "headers": {}, "text": ""}
            else:
                said = answer(application, request)
            print(json.dumps(said), file=out, flush=True)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
