"""Former module paths and names of the plugin interface, which the next version removes.

Plugins import rules, tables, records and ports. When those moved, each former path became a module
that emits a `DeprecationWarning` on import and passes look-ups on to the current module. No code of
Berth uses former names.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Final

_COMPUTE: Final = "berth.domain.compute"
_EVALUATION: Final = "berth.scheduling.evaluation"

FORMER_MODULES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = MappingProxyType(
    {
        "berth.domain.aggregate": (f"{_COMPUTE}.aggregate", {}),
        "berth.domain.allocation": ("berth.domain.inventory.allocation", {}),
        "berth.domain.assignment": ("berth.domain.hardware.assignment", {}),
        "berth.domain.decision": (f"{_COMPUTE}.decision", {}),
        "berth.domain.flavor": (f"{_COMPUTE}.flavor", {}),
        "berth.domain.host": (f"{_COMPUTE}.host", {}),
        "berth.domain.image": (f"{_COMPUTE}.flavor", {}),
        "berth.domain.instance": (f"{_COMPUTE}.instance", {}),
        "berth.domain.request": (f"{_COMPUTE}.request", {}),
        "berth.domain.resources": ("berth.domain.inventory.resources", {}),
        "berth.domain.server_group": (f"{_COMPUTE}.server_group", {}),
        "berth.ports.metrics": ("berth.ports.telemetry", {"Shape": "MetricType"}),
        "berth.ports.notifier": ("berth.ports.bus", {}),
        "berth.ports.tracing": ("berth.ports.telemetry", {}),
        "berth.scheduling.choosing": (
            f"{_EVALUATION}.selection",
            {"Chance": "RandomSource", "choose": "choose_host"},
        ),
        "berth.scheduling.cost": (f"{_EVALUATION}.cost", {}),
        "berth.scheduling.planning": (
            "berth.scheduling.plan.planning",
            {"Manner": "SelectionStrategy"},
        ),
        "berth.scheduling.policy": (
            f"{_EVALUATION}.policy",
            {"RuledDriver": "FilteringDriver"},
        ),
        "berth.scheduling.ranking": (
            f"{_EVALUATION}.ranking",
            {"Ranked": "Ranking", "Ranking": "FullRanking", "Weighed": "WeigherScores"},
        ),
        "berth.scheduling.rule": ("berth.scheduling.rules.rule", {}),
        "berth.scheduling.seeding": ("berth.scheduling.plan.planning", {}),
        "berth.tables.bitsets": ("berth.tables.columnar.bitsets", {}),
        "berth.tables.following": ("berth.tables.host.feed", {}),
        "berth.tables.hosts": ("berth.tables.host.hosts", {}),
        "berth.tables.journal": ("berth.tables.columnar.journal", {}),
        "berth.tables.occupants": ("berth.tables.host.occupants", {}),
        "berth.tables.schema": ("berth.tables.columnar.schema", {}),
    }
)
"""The current module for each former path, and the current names of objects that were renamed."""

FORMER_NAMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "berth.ports.ledger": {"Records": "RecordReader", "Holdings": "ConsumerReader"},
        "berth.ports.virt": {
            "Driver": "VirtDriver",
            "Leftover": "OrphanFiles",
            "Report": "HostReport",
            "Verb": "DriverFeature",
        },
        "berth.ports.zones": {
            "ForwardedAnswer": "ForwardedResponse",
            "ForwardsToZones": "ZoneForwarder",
            "StatesTenants": "TenantAssertionWriter",
        },
    }
)
"""Names that changed in modules that stayed where they were."""


def former_name(module: str, name: str) -> object:
    """Return the object that a module had under a former name, with a `DeprecationWarning`.

    Args:
        module: the module whose attribute is looked up.
        name: the former name.

    Raises:
        AttributeError: `name` is not a former name of the module.
    """
    present = FORMER_NAMES.get(module, {}).get(name)
    if present is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    # The caller is the `__getattr__` of the module, and its caller uses the former name.
    _warn(f"{module}.{name} is now {module}.{present}", stacklevel=4)
    return getattr(import_module(module), present)


class _FormerModule(ModuleType):
    """A module at a former path, which returns the attributes of the current module."""

    def __init__(self, name: str, target: str, names: Mapping[str, str]) -> None:
        super().__init__(name)
        self._target = target
        self._names = names

    def __getattr__(self, name: str) -> object:
        # The import system looks up dunder names, which must not lead to the present module.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._target), self._names.get(name, name))


class _FormerPaths(MetaPathFinder, Loader):
    """Finds former modules, after every other finder has failed."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the import system's signature
        target: ModuleType | None = None,  # noqa: ARG002 - likewise
    ) -> ModuleSpec | None:
        """Return the spec of a former module, or None for any other name."""
        return ModuleSpec(fullname, self) if fullname in FORMER_MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module for a former path, and emit a `DeprecationWarning`."""
        target, names = FORMER_MODULES[spec.name]
        # `warnings` does not count the frames of the import system between this and the importer.
        _warn(f"{spec.name} is now {target}", stacklevel=3)
        return _FormerModule(spec.name, target, names)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module looks up attributes when they are used."""


def _warn(change: str, stacklevel: int) -> None:
    warnings.warn(
        f"{change}; the next version removes the former name",
        DeprecationWarning,
        stacklevel=stacklevel,
    )


def install() -> None:
    """Make former module paths importable. A second call changes nothing."""
    if not any(isinstance(finder, _FormerPaths) for finder in sys.meta_path):
        # The finder comes last, so that it costs nothing while imports succeed.
        sys.meta_path.append(_FormerPaths())
