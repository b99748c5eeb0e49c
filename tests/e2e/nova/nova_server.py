"""Runs a real Nova in one process; the interpreter of `.venv-nova` runs this.

The arguments are a port for the API, the URL of Placement, a folder, the names of the hosts with
commas between them, and the URLs of three empty databases: API database, cell0, cell1. API,
conductor, scheduler and one compute service with a fake driver for each host share the process, and
exchange messages in its memory. Keystone, Glance and Neutron are replaced by the little of them
that a cloud without networks needs: the token USER:PROJECT is that of a user, and the user `admin`
is the administrator. The process prints `ready` when Nova has found its hosts.
"""

import logging
import os
import socketserver
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

# Nova's services may use threads in place of eventlet, which a web server in threads needs.
os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "true"
warnings.simplefilter("ignore")

from nova import (  # type: ignore[import-not-found] # noqa: E402 - .venv-nova has it
    config,
    context,
    objects,
    service,
)
from nova.api import wsgi  # type: ignore[import-not-found] # noqa: E402
from nova.conf import CONF  # type: ignore[import-not-found] # noqa: E402
from nova.db import migration  # type: ignore[import-not-found] # noqa: E402
from nova.image import glance  # type: ignore[import-not-found] # noqa: E402
from nova.objects import host_mapping  # type: ignore[import-not-found] # noqa: E402

_IMAGE = {
    "id": "155d900f-4e14-4e4c-a73d-069cbf4541e6",
    "name": "image",
    "status": "active",
    "size": 1,
    "min_ram": 0,
    "min_disk": 0,
    "container_format": "raw",
    "disk_format": "raw",
    "visibility": "public",
    "protected": False,
    "properties": {"architecture": "x86_64", "hw_disk_bus": "virtio"},
    "tags": [],
    "is_public": True,
    "created_at": None,
    "updated_at": None,
    "deleted_at": None,
    "deleted": False,
    "owner": None,
    "checksum": None,
}
_CONF = """\
[DEFAULT]
transport_url = fake:/
state_path = {folder}
compute_driver = fake.MediumFakeDriverWithNestedCustomResources
host = controller
[oslo_concurrency]
lock_path = {folder}
[database]
connection = {cell1}
[api_database]
connection = {api}
[placement]
auth_type = admin_token
token = admin
endpoint = {placement}
endpoint_override = {placement}
[wsgi]
api_paste_config = {paste}
"""


class _NoNetworks:
    """A client of a Neutron that has nothing."""

    def __getattr__(self, name: str) -> Callable[..., dict[str, list[object]]]:
        """Return a function that lists nothing, such as `list_ports`."""
        noun = name.removeprefix("list_")
        return lambda *_, **__: {noun: []}


class _Glance(glance.API):  # type: ignore[misc] # Nova has no types
    """An image service with one image."""

    def get(self, *_: object, **__: object) -> dict[str, object]:
        """Return the image."""
        return dict(_IMAGE)

    def create(self, *_: object, **__: object) -> dict[str, object]:
        """Return the image as if it were new."""
        return dict(_IMAGE, id="255d900f-4e14-4e4c-a73d-069cbf4541e6")

    def generate_image_url(self, *_: object, **__: object) -> str:
        """Return a URL, which nothing reads."""
        return "http://glance.example"


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    """Serves each request in a thread."""

    daemon_threads = True
    request_queue_size = 64


class _Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _caller(_middleware: object, env: dict[str, str], **others: object) -> object:
    """Return the caller that a token names."""
    user, _, project = env["HTTP_X_AUTH_TOKEN"].partition(":")
    is_admin = user == "admin"
    roles = ["reader", "member", *(["admin"] if is_admin else [])]
    return context.RequestContext(user, project or user, is_admin=is_admin, roles=roles, **others)


def _replace_other_services() -> None:
    for patch in (
        mock.patch("keystonemiddleware.auth_token.filter_factory", return_value=lambda app: app),
        mock.patch("nova.api.auth.NovaKeystoneContext._create_context", _caller),
        mock.patch("nova.api.openstack.identity.verify_project_id", return_value=True),
        mock.patch("nova.image.glance.API", _Glance),
        # The hosts of one process would share this file.
        mock.patch("nova.virt.node.read_local_node_uuid", return_value=None),
        mock.patch("nova.virt.node.write_local_node_uuid"),
        mock.patch("nova.compute.manager.ComputeManager._ensure_existing_node_identity"),
        mock.patch(
            "nova.network.security_group_api.get_instances_security_groups_bindings",
            return_value={},
        ),
        mock.patch("nova.network.neutron.get_client", return_value=_NoNetworks()),
    ):
        patch.start()


def _create_cells(cell0_url: str, cell1_url: str) -> None:
    migration.db_sync(database="api")
    migration.db_sync(database="main")
    admin = context.get_admin_context()
    cell0 = objects.CellMapping(
        admin,
        uuid=objects.CellMapping.CELL0_UUID,
        name="cell0",
        transport_url="none:///",
        database_connection=cell0_url,
    )
    cell0.create()
    objects.CellMapping(
        admin,
        uuid="11111111-1111-4111-8111-111111111111",
        name="cell1",
        transport_url="fake:/",
        database_connection=cell1_url,
    ).create()
    with context.target_cell(admin, cell0) as there:
        migration.db_sync(database="main", context=there)


def _start_services(hosts: list[str]) -> list[object]:
    """Start all services, and return them, so that they are not collected."""
    started = []
    for topic in ("conductor", "scheduler"):
        started.append(
            service.Service.create(host="controller", binary=f"nova-{topic}", topic=topic)
        )
        started[-1].start()
    for host in hosts:
        CONF.set_override("host", host)
        started.append(service.Service.create(host=host, binary="nova-compute", topic="compute"))
        started[-1].start()
    CONF.set_override("host", "controller")
    host_mapping.discover_hosts(context.get_admin_context())
    return started


def main(  # noqa: PLR0913, PLR0917 - the words of the command line
    port: str, placement: str, folder: str, hosts: str, api: str, cell0: str, cell1: str
) -> None:
    """Start Nova, and serve its API until the process is killed."""
    paste = Path(sys.prefix, "etc", "nova", "api-paste.ini")
    conf = Path(folder, "nova.conf")
    text = _CONF.format(folder=folder, api=api, cell1=cell1, placement=placement, paste=paste)
    conf.write_text(text)
    config.parse_args(["nova", "--config-file", str(conf)])
    logging.disable(logging.CRITICAL)
    objects.register_all()
    _create_cells(cell0, cell1)
    _replace_other_services()
    services = _start_services(hosts.split(","))
    application = wsgi.Loader().load_app("osapi_compute")
    with make_server("127.0.0.1", int(port), application, _Server, _Quiet) as server:
        sys.stdout.write(f"ready with {len(services)} services\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
