"""The filters that Nova has removed since Pike, from the last Pike release's own wheel.

No module of it is installed: each filter's text is read from the wheel and run on top of the Nova
that is. They ask nothing of it that has changed since, but for four names, which are stood in for:
two markers of translated messages, `six.string_types`, and an older module of helpers.
"""

from __future__ import annotations

import datetime as dt
import importlib
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nova_peer import Json, Nova

WHEELS = Path(sys.prefix) / "pike"
FOLDER = "nova/scheduler/filters"
FILTERS = {
    "retry_filter": ("RetryFilter",),
    "availability_zone_filter": ("AvailabilityZoneFilter",),
    "core_filter": ("CoreFilter", "AggregateCoreFilter"),
    "ram_filter": ("RamFilter", "AggregateRamFilter"),
    "disk_filter": ("DiskFilter", "AggregateDiskFilter"),
    "exact_core_filter": ("ExactCoreFilter",),
    "exact_ram_filter": ("ExactRamFilter",),
    "exact_disk_filter": ("ExactDiskFilter",),
    "type_filter": ("TypeAffinityFilter",),
    "trusted_filter": ("TrustedFilter",),
}
"""The classes that are taken of each module; the others of it are Nova's to this day."""

AUTH_TIMEOUT_S = 60


class PikeMissingError(Exception):
    """There is no wheel of Pike in the virtualenv."""


class Attestations:
    """Stands where Nova asks an attestation service over HTTP: it says what the case says."""

    states: Sequence[Json] = ()

    def do_attestation(self, hosts: Sequence[str]) -> list[Json]:
        """Return level and time of each of the nodes that are attested."""
        return [one for one in self.states if one["host_name"] in hosts]

    @classmethod
    def read(cls, case: Json) -> None:
        """Take over what a case says; an attestation that has run out is none."""
        cls.states = [
            {
                "host_name": host["node"],
                "trust_lvl": host["attestation"]["level"],
                "vtime": dt.datetime.fromtimestamp(case["now_s"], dt.UTC).isoformat(),
            }
            for host in case["hosts"]
            if host["attestation"] and host["attestation"]["valid_until_s"] >= case["now_s"]
        ]


def load_filters(nova: Nova) -> dict[str, Any]:
    """Return the classes by name.

    Raises:
        PikeMissingError: the wheel is missing; the message says what to do.
    """
    wheel = next(WHEELS.glob("nova-16.*.whl"), None)
    if wheel is None:
        message = f"there is no wheel of Pike in {WHEELS}; remove the virtualenv, and `make nova`"
        raise PikeMissingError(message)
    _register_options(nova)
    with zipfile.ZipFile(wheel) as files:
        helpers = _run(files, "utils", None)
        modules = {name: _run(files, name, helpers) for name in FILTERS}
    modules["trusted_filter"].AttestationService = Attestations
    return {
        name: getattr(modules[module], name) for module, names in FILTERS.items() for name in names
    }


def _run(files: zipfile.ZipFile, name: str, helpers: ModuleType | None) -> Any:  # noqa: ANN401
    """Run the text of one module in a module of its own."""
    module = ModuleType(f"pike_{name}")
    path = f"{FOLDER}/{name}.py"
    code = compile(files.read(path), path, "exec")
    package: Any = importlib.import_module(FOLDER.replace("/", "."))
    i18n: Any = importlib.import_module("nova.i18n")
    with (
        mock.patch.dict(sys.modules, {"six": SimpleNamespace(string_types=(str,))}),
        mock.patch.multiple(i18n, _LW=str, _LI=str, create=True),
        mock.patch.object(package, "utils", helpers or package.utils),
    ):
        exec(code, module.__dict__)  # noqa: S102 - a released wheel, whose hash is locked
    return module


def _register_options(nova: Nova) -> None:
    config: Any = importlib.import_module("oslo_config.cfg")
    option = config.IntOpt("attestation_auth_timeout", default=AUTH_TIMEOUT_S)
    nova.conf.CONF.register_opt(option, group="trusted_computing")
