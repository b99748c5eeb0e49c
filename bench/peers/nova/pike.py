"""The filters that Nova has removed since Pike, from the wheel of the last Pike release.

The wheel is not installed: the source of each filter is read from it and run with the installed
Nova. Four names that the filters need no longer exist and are replaced: two markers of translated
messages, `six.string_types`, and an older module of helpers.
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
"""The classes that are taken from each module; its other classes still exist in Nova."""

AUTH_TIMEOUT_S = 60


class PikeMissingError(Exception):
    """There is no wheel of Pike in the virtualenv."""


class Attestations:
    """Replaces Nova's client of an attestation service; it returns the attestations of a case."""

    states: Sequence[Json] = ()

    def do_attestation(self, hosts: Sequence[str]) -> list[Json]:
        """Return the attestations of the given nodes that have one."""
        return [one for one in self.states if one["host_name"] in hosts]

    @classmethod
    def read(cls, case: Json) -> None:
        """Store the attestations of a case that have not expired."""
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
    """Return the filter classes by name.

    Raises:
        PikeMissingError: the wheel is missing; the message gives the remedy.
    """
    wheel = next(WHEELS.glob("nova-16.*.whl"), None)
    if wheel is None:
        message = f"no wheel of Pike in {WHEELS}; remove the virtualenv and run `make nova`"
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
    """Run the source of one module and return the resulting module."""
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
