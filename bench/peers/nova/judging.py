"""Evaluate Nova's filters and weighers on the hosts of a case, separately and together."""

from __future__ import annotations

import contextlib
import importlib
from itertools import permutations
from typing import TYPE_CHECKING, Any
from unittest import mock

import pike
from states import Builder, RefusedError, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nova_peer import HostState, Json, Nova, RequestSpec, Scheduler


class Judge:
    """Answers cases with the classes of one loaded Nova."""

    def __init__(self, nova: Nova, scheduler: Scheduler) -> None:
        """Find all filters and weighers of Nova, and the filters of Pike."""
        self._nova = nova
        self._conf: Any = nova.conf.CONF
        self._objects: Any = nova.objects
        self._timeutils: Any = importlib.import_module("oslo_utils.timeutils")
        self._weights: Any = importlib.import_module("nova.weights")
        self._hardware: Any = importlib.import_module("nova.virt.hardware")
        self._no_such_page: Any = importlib.import_module(
            "nova.exception"
        ).MemoryPageSizeNotSupported
        self._scheduler = scheduler
        self._builder = Builder(nova)
        hosts = scheduler.host_manager
        self._filters: dict[str, Any] = hosts.filter_cls_map | pike.load_filters(nova)
        self._weighers: dict[str, Any] = {type(one).__name__: type(one) for one in hosts.weighers}

    def describe(self) -> Json:
        """Return the properties of each rule: flags, fixed bounds and multipliers."""
        state = self._nameless_host()
        weighers = {name: cls() for name, cls in self._weighers.items()}
        return {
            "filters": {
                name: {
                    "once_per_request": cls.run_filter_once_per_request,
                    "run_on_rebuild": cls.RUN_ON_REBUILD,
                }
                for name, cls in self._filters.items()
            },
            "weighers": {
                name: {
                    "floor": one.minval,
                    "ceiling": one.maxval,
                    "multiplier": one.weight_multiplier(state),
                }
                for name, one in weighers.items()
            },
        }

    def answer(self, case: Json) -> Json:
        """Return the answer to a case: `refused`, or verdicts, values and orders."""
        with self._settled(case):
            try:
                spec = self._builder.request_spec(case)
            except RefusedError as error:
                return {"refused": str(error)}
            made = [self._builder.host_state(host, case) for host in case["hosts"]]
            weighed = [made[index] for index in case["weighed"]]
            return {
                "refused": None,
                "filters": {name: self._ask_filter(name, made, spec) for name in case["filters"]},
                "weighers": {
                    name: self._ask_weigher(name, weighed, spec) for name in case["weighers"]
                },
                "pairs_anew": [state and self._fit_anew(state, spec) for state in made],
                "images": self._builder.images(case, spec),
                "steps": self._ask_all(case, spec),  # last, because it modifies the request
            }

    # --- one rule ------------------------------------------------------------------------------

    def _ask_filter(
        self, name: str, states: Sequence[HostState | None], spec: RequestSpec
    ) -> list[bool | str | None]:
        """Return for each host whether it passes, or what was raised; None without a host."""
        rule = attempt(self._filters[name])
        if isinstance(rule, str):
            return [rule for _ in states]

        def passes(state: HostState) -> bool | str:
            candidates = list(state.allocation_candidates)
            verdict = attempt(lambda: bool(list(rule.filter_all([state], spec))))
            state.allocation_candidates = candidates  # some filters remove candidates
            return verdict

        return [None if state is None else passes(state) for state in states]

    def _fit_anew(self, state: HostState, spec: RequestSpec) -> bool | None:
        """Return whether the cells fit when each pair of guest and host cell is tried separately.

        Nova's search caches pairs by the id of the guest's cell, which it overwrites while it
        searches, and carries page size and pins of one try over to the next. None is returned where
        Nova does not search.
        """
        if spec.numa_topology is None or state.numa_topology is None:
            return None
        rule = self._filters["NUMATopologyFilter"]()
        properties = spec.image.properties
        if not rule._satisfies_cpu_policy(state, spec.flavor.extra_specs, properties):
            return False
        guests = range(len(spec.numa_topology.cells))
        found: Any = attempt(
            lambda: any(
                self._fits_on(state, spec, places)
                for places in permutations(state.numa_topology.cells, len(guests))
            )
        )
        return found is True

    def _fits_on(self, state: HostState, spec: RequestSpec, places: Sequence[Any]) -> bool:
        hardware = self._hardware
        topology = spec.numa_topology.obj_clone()
        limits = self._objects.NUMATopologyLimits(
            cpu_allocation_ratio=state.cpu_allocation_ratio,
            ram_allocation_ratio=state.ram_allocation_ratio,
        )
        chosen = []
        for number, (place, cell) in enumerate(zip(places, topology.cells, strict=True)):
            reserved = int(topology.emulator_threads_isolated and not number)
            try:
                got = hardware._numa_fit_instance_cell(place, cell, limits, reserved)
            except self._no_such_page:
                return False
            if got is None:
                return False
            chosen.append(got)
        devices = spec.pci_requests.requests if spec.pci_requests else ()
        return not devices or state.pci_stats.support_requests(devices, {}, chosen)

    def _ask_weigher(self, name: str, states: Sequence[HostState], spec: RequestSpec) -> Json:
        """Return a weigher's raw and normalised values and multipliers, or what was raised."""
        rule = attempt(self._weighers[name])
        if isinstance(rule, str):
            return {"error": rule}

        def values() -> Json:
            weighed = [self._weights.WeighedObject(state, 0.0) for state in states]
            clamped = rule.weigh_objects(weighed, spec)
            normalised = self._weights.normalize(clamped, minval=rule.minval, maxval=rule.maxval)
            return {
                "raw": [rule._weigh_object(state, spec) for state in states],
                "normalised": list(normalised),
                "multiplier": [rule.weight_multiplier(state) for state in states],
            }

        found = attempt(values)
        return {"error": found} if isinstance(found, str) else found

    # --- all rules -----------------------------------------------------------------------------

    def _ask_all(self, case: Json, spec: RequestSpec) -> list[Json] | str:
        """Filter and weigh for each instance of the request; the case names its host."""
        found: list[Json] | str = attempt(lambda: list(self._steps(case, spec)))
        return found

    def _steps(self, case: Json, spec: RequestSpec) -> Iterator[Json]:
        made = [self._builder.host_state(host, case) for host in case["hosts"]]
        index_of = {id(state): index for index, state in enumerate(made)}
        states = [state for state in made if state is not None]
        hosts = self._scheduler.host_manager
        hosts.enabled_filters = [self._filters[name]() for name in case["order"]["filters"]]
        hosts.weighers = [self._weighers[name]() for name in case["order"]["weighers"]]
        for number, chosen in enumerate(case["chosen"]):
            spec.instance_uuid = case["request"]["instance_uuids"][number]
            states = list(hosts.get_filtered_hosts(states, spec, number))
            ranked = hosts.get_weighed_hosts(states, spec)
            yield {"order": [[index_of[id(one.obj)], one.weight] for one in ranked]}
            if chosen is None:
                break
            state = made[chosen]
            self._scheduler._consume_selected_host(state, spec, spec.instance_uuid)
            for one in state.instances.values():
                if "instance_type_id" not in one:  # Pike's scheduler stored whole instances
                    one.instance_type_id = spec.flavor.id

    # --- surroundings --------------------------------------------------------------------------

    @contextlib.contextmanager
    def _settled(self, case: Json) -> Iterator[None]:
        """Set the clock and the options of a case, and reset them at the end."""
        self._timeutils.set_time_override(moment(case["now_s"]).replace(tzinfo=None))
        pike.Attestations.read(case)
        for name, value in case["settings"].items():
            group, _, option = name.rpartition(".")
            self._conf.set_override(option, value, group or None)
        try:
            with self._no_database():
                yield
        finally:
            for name in case["settings"]:
                group, _, option = name.rpartition(".")
                self._conf.clear_override(option, group or None)
            self._timeutils.clear_time_override()

    @contextlib.contextmanager
    def _no_database(self) -> Iterator[None]:
        """Replace the database, which one weigher reads and which does not have the new instances.

        Otherwise Nova would raise for the second instance of a request with a group. One filter of
        Pike reads all nodes when it is built, and each node again when it is called.
        """

        def fill_metadata(instances: Any) -> None:  # noqa: ANN401 - Nova has no types
            for one in instances:
                if "system_metadata" not in one:
                    one.system_metadata = {}
                    one.image_ref = ""

        objects = self._objects
        with (
            mock.patch.object(objects.CellMapping, "get_by_uuid"),
            mock.patch.object(objects.ComputeNodeList, "get_all", return_value=[]),
            mock.patch("nova.context.target_cell", lambda seen, _: contextlib.nullcontext(seen)),
            mock.patch.object(objects.InstanceList, "fill_metadata", fill_metadata),
        ):
            yield

    def _nameless_host(self) -> HostState:
        return self._nova.host_manager.HostState("", "", "")


def attempt(call: Callable[[], Any]) -> Any:  # noqa: ANN401 - any type
    """Return the result of a call, or a text with the exception that it raised."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - any exception of Nova is its answer
        return f"{type(error).__name__}: {error}"
