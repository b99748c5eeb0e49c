"""Measure the scheduler code of OpenStack Nova: the peer column of Berth's benchmark.

Run it with the Python of a virtualenv that holds `nova-requirements.lock`; it imports Nova and
nothing of Berth. `README.md` in this folder, and in short the JSON itself, say what is measured,
stubbed and left out. JSON goes to stdout, progress to stderr.

Exit codes: 0 measured, 2 wrong arguments, 3 Nova cannot be imported, 4 Nova was imported, but a
measurement failed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import gc
import importlib
import importlib.metadata
import json
import logging
import os
import platform
import statistics
import sys
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    # Nova has no type annotations; these names only tell readers which class is meant.
    HostState: TypeAlias = Any  # nova.scheduler.host_manager.HostState
    RequestSpec: TypeAlias = Any  # nova.objects.RequestSpec
    Scheduler: TypeAlias = Any  # nova.scheduler.manager.SchedulerManager, see `build_scheduler`
    WeighedHost: TypeAlias = Any  # nova.scheduler.weights.WeighedHost
    Json: TypeAlias = dict[str, Any]

EXIT_OK = 0
EXIT_NOVA_MISSING = 3
EXIT_MEASUREMENT_FAILED = 4

SCHEMA = 1
ORDER_LENGTH = 10
ESTIMATE_INSTANCES = 10
CELL_UUID = str(uuid.UUID(int=1 << 96))
ALLOCATION_VERSION = "1.36"
# Longer than any run, so no prepared heartbeat expires; ComputeFilter still checks them.
SERVICE_DOWN_TIME_S = 10_000_000

VCPUS = 64
MEMORY_MB = 262_144
DISK_GB = 2_000
CPU_RATIO = 4.0
RAM_RATIO = 1.0
DISK_RATIO = 1.0

REQUEST_VCPUS = 2
REQUEST_MEMORY_MB = 2_048
REQUEST_DISK_GB = 20
REQUEST_ARCHITECTURE = "x86_64"

FLEET: Json = {
    "seed": 0,
    "index": "i = 0 .. hosts-1; k = i + seed",
    "name": "host-%06d of i (host and node alike)",
    "uuid": "the 128-bit number i + 1",
    "list_order": "ascending i; the sort is stable, so equal weights keep this order",
    "vcpus": VCPUS,
    "memory_mb": MEMORY_MB,
    "disk_gb": DISK_GB,
    "cpu_allocation_ratio": CPU_RATIO,
    "ram_allocation_ratio": RAM_RATIO,
    "disk_allocation_ratio": DISK_RATIO,
    "reserved": 0,
    "vcpus_used": "k * 7919 % 97",
    "memory_used_mb": "k * 104729 % 191 * 1024",
    "disk_used_gb": "k * 1299709 % 1009",
    "instances": 0,
    "io_ops": 0,
    "failed_builds": 0,
    "hypervisor": "QEMU 8002000, supports x86_64/kvm/hvm",
    "aggregates": 0,
    "pci_devices": 0,
    "numa_cells": 0,
    "cells": 1,
}

REQUEST: Json = {
    "vcpus": REQUEST_VCPUS,
    "memory_mb": REQUEST_MEMORY_MB,
    "disk_gb": REQUEST_DISK_GB,
    "image_properties": {"hw_architecture": REQUEST_ARCHITECTURE},
    "extra_specs": {},
    "hints": {},
    "group": None,
}

STUBS = [
    "database reads at HostManager start: cells, aggregates, instances (all empty)",
    "RPC notifier at SchedulerManager start",
    "placement client; its claim is always granted",
    "_get_all_host_states returns prepared HostStates",
]

NOT_INCLUDED = [
    "building HostStates (reported as build_states; Nova does it for every request)",
    "request pre-filters and Placement's search for candidates",
    "database, RPC, HTTP, JSON over the wire",
    "conductor, quota, compute-side claims",
]


class NovaMissingError(Exception):
    """This Python cannot import Nova or one of its dependencies."""


class MeasurementError(Exception):
    """Nova returned something unexpected, so the figures would be meaningless."""


@dataclass(frozen=True)
class Nova:
    """The modules of Nova that this script uses."""

    conf: ModuleType
    context: ModuleType
    objects: ModuleType
    rpc: ModuleType
    host_manager: ModuleType
    manager: ModuleType


@dataclass(frozen=True)
class Sample:
    """The time of one call: CPU time of the whole process and wall time, in seconds."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True)
class Batch:
    """One call of `_schedule`: its time, and the name of the host of each instance, in order."""

    sample: Sample
    hosts: list[str]


@dataclass(frozen=True)
class Plan:
    """What to measure; the fields correspond to the arguments of the command line."""

    hosts: list[int]
    instances: int
    repeat: int
    batch_repeat: int
    batch_estimate: bool
    skip_batch_over: int | None


class GrantingPlacement:
    """Replaces Nova's Placement client: it grants every claim and records the time.

    The recorded times give the cost of a further instance, with which `--batch-estimate` scales.
    """

    def __init__(self) -> None:
        """Start without recorded claims."""
        self.claims: list[Sample] = []

    def claim_resources(self, *_args: object, **_kwargs: object) -> bool:
        """Grant the claim, as Placement does when the amounts fit."""
        self.claims.append(Sample(time.process_time(), time.perf_counter()))
        return True


# --- Nova, as its own scheduler command starts it ----------------------------------------------


def load_nova() -> Nova:
    """Import Nova in native threading mode (its scheduler's default) with stock settings.

    No configuration file and no environment variable is read; one option is overridden, see
    `SERVICE_DOWN_TIME_S`.

    Raises:
        NovaMissingError: a module cannot be imported; the message names it and the remedy.
    """
    os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "1"
    try:
        importlib.import_module("nova.monkey_patch").patch(backend="threading")
        nova = Nova(
            conf=importlib.import_module("nova.conf"),
            context=importlib.import_module("nova.context"),
            objects=importlib.import_module("nova.objects"),
            rpc=importlib.import_module("nova.rpc"),
            host_manager=importlib.import_module("nova.scheduler.host_manager"),
            manager=importlib.import_module("nova.scheduler.manager"),
        )
    except ImportError as error:
        message = (
            f"cannot import Nova with {sys.executable}: {error}\n"
            "Install the peer into a virtualenv of its own and run this script with its Python:\n"
            "  python3 -m venv .venv-nova\n"
            "  .venv-nova/bin/pip install --require-hashes -r bench/peers/nova-requirements.lock"
        )
        raise NovaMissingError(message) from error
    nova.objects.register_all()
    nova.conf.CONF(
        [], project="nova", default_config_files=[], default_config_dirs=[], use_env=False
    )
    nova.conf.CONF.set_override("service_down_time", SERVICE_DOWN_TIME_S)
    return nova


def build_scheduler(nova: Nova) -> Scheduler:
    """Return Nova's SchedulerManager, changed only by the stubs in `STUBS`."""

    class PeerScheduler(nova.manager.SchedulerManager):  # type: ignore[name-defined, misc]
        """Nova's manager with prepared hosts and a Placement client that grants every claim."""

        placement_client = GrantingPlacement()  # a property in the parent
        prepared: Sequence[HostState] = ()

        def _get_all_host_states(self, *_args: object) -> Iterator[HostState]:
            return iter(self.prepared)

        def sort(self, spec: RequestSpec, hosts: Sequence[HostState]) -> list[HostState]:
            return self._get_sorted_hosts(spec, hosts, 0)

        def schedule(self, *args: object) -> list[list[Any]]:
            return self._schedule(*args)

    objects = nova.objects
    with (
        mock.patch.object(
            objects.CellMappingList, "get_all", return_value=objects.CellMappingList(objects=[])
        ),
        mock.patch.object(
            objects.AggregateList, "get_all", return_value=objects.AggregateList(objects=[])
        ),
        mock.patch.object(nova.host_manager.HostManager, "_init_instance_info"),
        mock.patch.object(nova.rpc, "get_notifier"),
    ):
        return PeerScheduler()


# --- the fleet and the request -----------------------------------------------------------------


def compute_node(nova: Nova, i: int, now: dt.datetime) -> object:
    """Return the ComputeNode object of host `i` by the recipe in `FLEET`."""
    objects = nova.objects
    k = i + FLEET["seed"]
    vcpus_used = k * 7919 % 97
    memory_used_mb = k * 104729 % 191 * 1024
    disk_used_gb = k * 1299709 % 1009
    name = f"host-{i:06d}"
    return objects.ComputeNode(
        id=i + 1,
        uuid=str(uuid.UUID(int=i + 1)),
        host=name,
        hypervisor_hostname=name,
        hypervisor_type="QEMU",
        hypervisor_version=8_002_000,
        host_ip="192.0.2.1",
        vcpus=VCPUS,
        vcpus_used=vcpus_used,
        memory_mb=MEMORY_MB,
        memory_mb_used=memory_used_mb,
        free_ram_mb=MEMORY_MB - memory_used_mb,
        local_gb=DISK_GB,
        local_gb_used=disk_used_gb,
        free_disk_gb=DISK_GB - disk_used_gb,
        disk_available_least=None,
        cpu_allocation_ratio=CPU_RATIO,
        ram_allocation_ratio=RAM_RATIO,
        disk_allocation_ratio=DISK_RATIO,
        cpu_info="{}",
        metrics="[]",
        stats={"num_instances": "0", "io_workload": "0", "failed_builds": "0"},
        numa_topology=None,
        pci_device_pools=None,
        supported_hv_specs=[objects.HVSpec(arch="x86_64", hv_type="kvm", vm_mode="hvm")],
        updated_at=now,
    )


def service_record(nova: Nova, name: str, now: dt.datetime) -> dict[str, object]:
    """Return the record of an enabled nova-compute service that reported at `now`."""
    service = nova.objects.Service(
        host=name,
        binary="nova-compute",
        topic="compute",
        report_count=1,
        disabled=False,
        disabled_reason=None,
        forced_down=False,
        last_seen_up=now,
        created_at=now,
        updated_at=now,
    )
    return dict(service)


def fill_state(nova: Nova, node: Any, service: dict[str, object]) -> HostState:  # noqa: ANN401
    """Make one HostState the way HostManager does: a new object, updated from its records."""
    state = nova.host_manager.HostState(node.host, node.hypervisor_hostname, CELL_UUID)
    state.update(node, service, [], {})
    return state


def build_states(nova: Nova, count: int) -> tuple[list[HostState], Sample]:
    """Make `count` fresh HostStates, ascending i; time only the HostStates, not their records."""
    now = dt.datetime.now(dt.UTC)
    nodes = [compute_node(nova, i, now) for i in range(count)]
    services = [service_record(nova, f"host-{i:06d}", now) for i in range(count)]
    pairs = zip(nodes, services, strict=True)
    return timed(lambda: [fill_state(nova, node, service) for node, service in pairs])


def build_request(nova: Nova, instances: int) -> RequestSpec:
    """Return the RequestSpec of `REQUEST` for some instances, with every field set."""
    objects = nova.objects
    image = objects.ImageMeta(
        id=str(uuid.UUID(int=1 << 97)),
        properties=objects.ImageMetaProps(hw_architecture=REQUEST_ARCHITECTURE),
    )
    flavor = objects.Flavor(
        flavorid="peer",
        name="peer",
        vcpus=REQUEST_VCPUS,
        memory_mb=REQUEST_MEMORY_MB,
        root_gb=REQUEST_DISK_GB,
        ephemeral_gb=0,
        swap=0,
        extra_specs={},
    )
    return objects.RequestSpec(
        image=image,
        flavor=flavor,
        numa_topology=None,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        project_id="project",
        user_id="user",
        availability_zone=None,
        num_instances=instances,
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        requested_destination=None,
        retry=None,
        limits=objects.SchedulerLimits.from_dict({}),
        instance_group=None,
        scheduler_hints={},
        instance_uuid=str(uuid.UUID(int=1 << 98)),
        is_bfv=False,
        requested_resources=[],
    )


def allocation_requests(states: Sequence[HostState]) -> dict[str, list[Json]]:
    """Return Placement's answer: one allocation request per host, by host uuid."""
    resources = {
        "VCPU": REQUEST_VCPUS,
        "MEMORY_MB": REQUEST_MEMORY_MB,
        "DISK_GB": REQUEST_DISK_GB,
    }
    return {
        state.uuid: [
            {
                "allocations": {state.uuid: {"resources": dict(resources)}},
                "mappings": {"": [state.uuid]},
            }
        ]
        for state in states
    }


# --- measuring ---------------------------------------------------------------------------------


def timed(call: Callable[[], Any]) -> tuple[Any, Sample]:
    """Return the result and the time of a call, with garbage collected before it."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, Sample(time.process_time() - cpu, time.perf_counter() - wall)


def report_ms(samples: Sequence[Sample]) -> Json:
    """Return samples in milliseconds: median CPU time, minimum wall time, and all CPU times."""
    cpu_ms = [sample.cpu_s * 1e3 for sample in samples]
    return {
        "cpu_ms": round(statistics.median(cpu_ms), 3),
        "wall_ms_min": round(min(sample.wall_s for sample in samples) * 1e3, 3),
        "cpu_ms_samples": [round(value, 3) for value in cpu_ms],
    }


def check_order(
    scheduler: Scheduler, spec: RequestSpec, states: Sequence[HostState]
) -> list[WeighedHost]:
    """Weigh all hosts once, untimed, and check that none is missing or in another order.

    Returns:
        All hosts with their weights, best first.

    Raises:
        MeasurementError: a filter removed a host (none should), or `_get_sorted_hosts` does not
            return the order of the weights.
    """
    passed = scheduler.host_manager.get_filtered_hosts(states, spec, 0)
    if len(passed) != len(states):
        message = f"{len(states) - len(passed)} of {len(states)} hosts were filtered out"
        raise MeasurementError(message)
    weighed = scheduler.host_manager.get_weighed_hosts(passed, spec)
    if [entry.obj for entry in weighed] != scheduler.sort(spec, states):
        message = "_get_sorted_hosts returned another order than get_weighed_hosts"
        raise MeasurementError(message)
    return weighed


def measure_single(
    scheduler: Scheduler, spec: RequestSpec, states: Sequence[HostState], repeat: int
) -> Json:
    """Return the times of `_get_sorted_hosts` for one instance, and of its two parts."""
    weighed = check_order(scheduler, spec, states)  # also warms up
    hosts = scheduler.host_manager
    sort, filter_, weigh = [], [], []
    for _ in range(repeat):
        sort.append(timed(lambda: scheduler.sort(spec, states))[1])
        passed, sample = timed(lambda: hosts.get_filtered_hosts(states, spec, 0))
        filter_.append(sample)
        weigh.append(timed(lambda passed=passed: hosts.get_weighed_hosts(passed, spec))[1])
    best = weighed[:ORDER_LENGTH]
    return {
        "sorted_hosts": report_ms(sort),
        "filter": report_ms(filter_),
        "weigh": report_ms(weigh),
        "first_host": best[0].obj.host,
        "order": [{"host": entry.obj.host, "weight": entry.weight} for entry in best],
    }


def run_batch(nova: Nova, scheduler: Scheduler, count: int, instances: int) -> Batch:
    """Run `_schedule` once for `instances` instances on `count` fresh hosts.

    Raises:
        MeasurementError: not every instance got a host.
    """
    states, _ = build_states(nova, count)
    requests = allocation_requests(states)
    scheduler.prepared = states
    scheduler.placement_client.claims.clear()
    context = nova.context.RequestContext(user_id="user", project_id="project")
    spec = build_request(nova, instances)
    uuids = [str(uuid.UUID(int=(1 << 99) + n)) for n in range(instances)]
    selections, sample = timed(
        lambda: scheduler.schedule(context, spec, uuids, requests, {}, ALLOCATION_VERSION)
    )
    scheduler.prepared = ()
    hosts = [selection[0].service_host for selection in selections]
    if len(hosts) != instances or len(scheduler.placement_client.claims) != instances:
        message = f"asked for {instances} instances, got {len(hosts)}"
        raise MeasurementError(message)
    return Batch(sample, hosts)


def extrapolate(total: Sample, claims: Sequence[Sample], instances: int) -> Sample:
    """Return the time of a shorter batch, scaled to `instances`.

    The first instance costs more, because some filters run once per request. So the missing
    instances are charged with the mean time between the claims of the shorter batch.
    """
    steps = len(claims) - 1
    missing = instances - len(claims)
    return Sample(
        cpu_s=total.cpu_s + missing * (claims[-1].cpu_s - claims[0].cpu_s) / steps,
        wall_s=total.wall_s + missing * (claims[-1].wall_s - claims[0].wall_s) / steps,
    )


def measure_batch(nova: Nova, scheduler: Scheduler, count: int, plan: Plan) -> Json:
    """Return the time of `_schedule` on `count` hosts, measured, estimated or skipped."""
    big = plan.skip_batch_over is None or count > plan.skip_batch_over
    estimated = plan.batch_estimate and big and plan.instances > ESTIMATE_INSTANCES
    if big and plan.skip_batch_over is not None and not plan.batch_estimate:
        return {"instances": plan.instances, "skipped": True}
    measured = ESTIMATE_INSTANCES if estimated else plan.instances
    samples, hosts = [], []
    for _ in range(plan.batch_repeat):
        batch = run_batch(nova, scheduler, count, measured)
        sample, hosts = batch.sample, batch.hosts
        if estimated:
            claims = scheduler.placement_client.claims
            sample = extrapolate(sample, claims, plan.instances)
        samples.append(sample)
    cpu_s = statistics.median(sample.cpu_s for sample in samples)
    return {
        "instances": plan.instances,
        "skipped": False,
        "estimated": estimated,
        "instances_measured": measured,
        "cpu_s": round(cpu_s, 4),
        "wall_s_min": round(min(sample.wall_s for sample in samples), 4),
        "cpu_s_samples": [round(sample.cpu_s, 4) for sample in samples],
        "cpu_ms_per_instance": round(cpu_s * 1e3 / plan.instances, 3),
        "hosts_distinct": len(set(hosts)),
        "hosts": hosts,
    }


def measure_size(nova: Nova, scheduler: Scheduler, count: int, plan: Plan) -> Json:
    """Return all figures for one fleet size."""
    say(f"{count} hosts: building")
    states, _ = build_states(nova, count)  # warms up
    states, build = build_states(nova, count)
    say(f"{count} hosts: one instance, {plan.repeat} times")
    single = measure_single(scheduler, build_request(nova, 1), states, plan.repeat)
    del states
    say(f"{count} hosts: {single['sorted_hosts']['cpu_ms']} ms CPU; now {plan.instances} instances")
    batch = measure_batch(nova, scheduler, count, plan)
    if not batch["skipped"]:
        kind = "estimated" if batch["estimated"] else "measured"
        say(f"{count} hosts: {batch['cpu_s']} s CPU for {plan.instances} instances ({kind})")
    return {"hosts": count, **single, "build_states": report_ms([build]), "batch": batch}


# --- the report and the command line -----------------------------------------------------------


def describe(nova: Nova, scheduler: Scheduler, plan: Plan) -> Json:
    """Return what is measured: versions, fleet, request, rules in order, stubs, limits."""
    (state,), _ = build_states(nova, 1)
    host_manager = scheduler.host_manager
    return {
        "schema": SCHEMA,
        "peer": "nova",
        "version": importlib.metadata.version("nova"),
        "python": platform.python_version(),
        "machine": {
            "architecture": platform.machine(),
            "cpus": os.cpu_count(),
            "load_average_at_start": os.getloadavg()[0],
        },
        "clocks": "cpu: time.process_time, median; wall: time.perf_counter, minimum",
        "repeat": plan.repeat,
        "batch_repeat": plan.batch_repeat,
        "fleet": FLEET,
        "request": REQUEST,
        "filters": [type(rule).__name__ for rule in host_manager.enabled_filters],
        "weighers": [
            {
                "name": type(rule).__name__,
                "multiplier": rule.weight_multiplier(state),
                "minimum": rule.minval,
                "maximum": rule.maxval,
            }
            for rule in host_manager.weighers
        ],
        "settings_overridden": {"service_down_time": SERVICE_DOWN_TIME_S},
        "stubs": STUBS,
        "not_included": NOT_INCLUDED,
    }


def positive(text: str) -> int:
    """Return an argument as an integer of at least 1."""
    value = int(text)
    if value < 1:
        message = f"{value} is less than 1"
        raise argparse.ArgumentTypeError(message)
    return value


def parse_arguments(arguments: Sequence[str] | None) -> tuple[Plan, bool]:
    """Return the plan from the command line, and whether the JSON is printed on one line."""
    parser = argparse.ArgumentParser(
        description="Measure Nova's scheduler code; JSON on stdout, progress on stderr."
    )
    add = parser.add_argument
    add("--hosts", type=positive, nargs="+", default=[1_000, 10_000], help="fleet sizes")
    add("--instances", type=positive, default=100, help="instances in the batch request")
    add("--repeat", type=positive, default=7, help="samples of the one-instance measures")
    add("--batch-repeat", type=positive, default=1, help="samples of the batch measure")
    add(
        "--skip-batch-over",
        type=int,
        metavar="N",
        help="no full batch on more than N hosts (100 instances on 10,000 take minutes)",
    )
    add(
        "--batch-estimate",
        action="store_true",
        help=f"run {ESTIMATE_INSTANCES} instances and scale; with --skip-batch-over, only on the "
        "sizes that it would skip",
    )
    add("--json", action="store_true", help="the JSON on one line (it is indented otherwise)")
    values = vars(parser.parse_args(arguments))
    one_line = values.pop("json")
    return Plan(**values), one_line


def say(text: str) -> None:
    """Write one line of progress to stderr."""
    sys.stderr.write(f"nova_peer: {text}\n")
    sys.stderr.flush()


def measure(plan: Plan) -> Json:
    """Load Nova and return the report for all sizes of the plan, in their order."""
    nova = load_nova()
    scheduler = build_scheduler(nova)
    report = describe(nova, scheduler, plan)
    report["results"] = [measure_size(nova, scheduler, count, plan) for count in plan.hosts]
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; the module's docstring lists them."""
    plan, one_line = parse_arguments(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout carries the JSON and nothing else
            report = measure(plan)
    except NovaMissingError as error:
        say(str(error))
        return EXIT_NOVA_MISSING
    except Exception as error:  # any exception of Nova is logged and reported
        logging.getLogger("nova_peer").warning("the measurement failed", exc_info=error)
        say(f"measurement failed: {type(error).__name__}: {error}")
        return EXIT_MEASUREMENT_FAILED
    json.dump(report, sys.stdout, indent=None if one_line else 2)
    sys.stdout.write("\n")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
