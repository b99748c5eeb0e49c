"""Reads the openb trace: Alibaba's GPU cluster of 2023, from files that Berth does not include.

The trace has pods on Kubernetes nodes. A node becomes a host and a pod a request for one instance.
CPU stays in 1/1000 core (`CUSTOM_CPU_MILLI`), so no request is rounded. Each GPU is a child
provider with 1000 `CUSTOM_GPU_MILLI`: a share of a GPU is a resource group that requests less, and
n whole GPUs are n groups that request 1000 each. Source: Weng et al., "Beware of Fragmentation",
USENIX ATC 2023.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from berth.domain.errors import BerthError
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.lab.workload import Arrival, FlavorSpec, FleetHost, Workload

CPU_MILLI = "CUSTOM_CPU_MILLI"
"""The resource class of CPUs, in 1/1000 core."""

GPU_MILLI = "CUSTOM_GPU_MILLI"
"""The resource class of GPUs, in 1/1000 GPU: each GPU is a child provider with 1000 of it."""

_MILLI = 1000

# The line of the first row; line 1 is the header.
_FIRST_LINE = 2
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIME = "creation_time"
_SPEC = "gpu_spec"


class OpenbTraceError(BerthError):
    """A file of the trace is missing or malformed.

    Args:
        path: the file.
        reason: the fault and its remedy.
        line: the line with the fault (1 is the header), or None for the whole file.
        column: the name of the column with the fault, or None for the whole line.
    """

    def __init__(
        self, path: Path, reason: str, *, line: int | None = None, column: str | None = None
    ) -> None:
        where = path.name if line is None else f"{path.name}, line {line}"
        super().__init__(f"{where if column is None else f'{where}, column {column}'}: {reason}")
        self.path = path
        self.line = line
        self.column = column


def read_openb(
    folder: Path, *, variant: str = "default", nodes: str = "all", cpu_class: str = CPU_MILLI
) -> Workload:
    """Return one variant of the trace as a workload without departures.

    With the trace's own deletion times the cluster would stay almost empty. The paper, which
    studies how much fits, ignores these times, and so does this function. Requests are ordered by
    creation time, then by name, which is the order of the published files. The multigpu variants
    have no times and keep their file order.

    Args:
        folder: the folder of `openb_node_list_*` and `openb_pod_list_*`, as .csv or .csv.gz.
        variant: the pod list, such as `default`, `gpuspec33` or `multigpu20`.
        nodes: `all` for every node, `gpu` for nodes with a GPU.
        cpu_class: the resource class for 1/1000 core. With VCPU, policies that read CPUs work
            unchanged, but all amounts of CPUs are 1000 times too large.

    Raises:
        OpenbTraceError: a file is missing or malformed.
    """
    hosts = tuple(
        _host(row, cpu_class)
        for row in _rows(folder, f"openb_node_list_{nodes}_node", _NODE_COLUMNS)
    )
    pods = [_pod(row) for row in _rows(folder, f"openb_pod_list_{variant}", _POD_COLUMNS)]
    flavors = {pod.flavor_name: _flavor(pod, cpu_class) for pod in pods}
    arrivals = [Arrival(pod.at_s, pod.name, pod.flavor_name) for pod in pods]
    return Workload(
        name=f"openb-{variant}-{nodes}",
        hosts=hosts,
        flavors=flavors,
        arrivals=tuple(sorted(arrivals, key=lambda arrival: (arrival.at_s, arrival.name))),
        notes=_notes(pods),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a file; its methods raise errors that name the line and column of a bad value."""

    path: Path
    line: int
    values: dict[str, str]

    def error(self, column: str, reason: str) -> OpenbTraceError:
        return OpenbTraceError(self.path, reason, line=self.line, column=column)

    def text(self, column: str) -> str:
        if not self.values[column]:
            raise self.error(column, "has no value; fetch the file again")
        return self.values[column]

    def number(self, column: str) -> int:
        text = self.values[column]
        if not (text.isascii() and text.isdigit()):
            reason = f"{text[:80]!r} is not a whole number of at least 0; fetch the file again"
            raise self.error(column, reason)
        return int(text)


@dataclass(frozen=True, slots=True)
class _Pod:
    """One pod; `gpu_milli` is the amount of each GPU, so below 1000 it is a share of one."""

    name: str
    at_s: float
    has_time: bool
    cpu_milli: int
    memory_mb: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]

    @property
    def shares_gpu(self) -> bool:
        return self.gpus > 0 and self.gpu_milli < _MILLI

    @property
    def flavor_name(self) -> str:
        models = f"-x{'_'.join(self.models)}" if self.models else ""
        share = f"-s{self.gpu_milli}" if self.shares_gpu else ""
        return f"c{self.cpu_milli}-m{self.memory_mb}-g{self.gpus}{models}{share}"


def _host(row: _Row, cpu_class: str) -> FleetHost:
    cpu_milli = row.number("cpu_milli")
    gpus = row.number("gpu")
    amounts = {
        VCPU: cpu_milli // _MILLI,
        cpu_class: cpu_milli,
        MEMORY_MB: row.number("memory_mib"),
    }
    if not gpus:
        return FleetHost(row.text("sn"), amounts)
    traits = (_model_trait(row.text("model")),)
    devices = tuple({GPU_MILLI: _MILLI} for _ in range(gpus))
    return FleetHost(row.text("sn"), amounts, traits, devices=devices)


def _pod(row: _Row) -> _Pod:
    gpus = row.number("num_gpu")
    gpu_milli = row.number("gpu_milli")
    if gpu_milli > _MILLI or (gpus > 1 and gpu_milli != _MILLI) or (gpus == 1 and not gpu_milli):
        reason = f"{gpu_milli} must be between 1 and 1000 for one GPU, and 1000 for several"
        raise row.error("gpu_milli", f"{reason}; fetch the file again")
    has_time = _TIME in row.values
    models = {model for model in row.values.get(_SPEC, "").split("|") if model}
    return _Pod(
        name=row.text("name"),
        at_s=float(row.number(_TIME) if has_time else row.line - _FIRST_LINE),
        has_time=has_time,
        cpu_milli=row.number("cpu_milli"),
        memory_mb=row.number("memory_mib"),
        gpus=gpus,
        gpu_milli=gpu_milli,
        models=tuple(sorted(models)),
    )


def _flavor(pod: _Pod, cpu_class: str) -> FlavorSpec:
    # Extra specs replace the flavor's own amounts, so a class that a pod does not use is set to 0.
    specs = {f"resources:{VCPU}": "0", f"resources:{cpu_class}": str(pod.cpu_milli)}
    specs[f"resources:{DISK_GB}"] = "0"
    for number in range(1, pod.gpus + 1):
        specs[f"resources{number}:{GPU_MILLI}"] = str(pod.gpu_milli)
    # Without `isolate` two groups could be served by the same GPU.
    if pod.gpus > 1:
        specs["group_policy"] = "isolate"
    traits = [_model_trait(model) for model in pod.models]
    if len(traits) == 1:
        specs[f"trait:{traits[0]}"] = "required"
    elif traits:
        specs["berth:any_trait"] = "|".join(traits)
    if not pod.memory_mb:
        specs[f"resources:{MEMORY_MB}"] = "0"
    # The compute API accepts no flavor without a vCPU or memory; the extra specs override both.
    vcpus = max(-(-pod.cpu_milli // _MILLI), 1)
    return FlavorSpec(pod.flavor_name, vcpus, max(pod.memory_mb, 1), 0, specs)


def _model_trait(model: str) -> str:
    return f"CUSTOM_GPU_MODEL_{re.sub(r'[^A-Z0-9]', '_', model.upper())}"


def _notes(pods: list[_Pod]) -> tuple[str, ...]:
    """Return notes about the simplifications of the workload."""
    total = len(pods)
    no_memory = sum(pod.memory_mb == 0 for pod in pods)
    notes = ["No instance departs: the trace's deletion times would leave the cluster near empty."]
    if no_memory:
        notes.append(f"{no_memory:,} of {total:,} requests request no memory, as in the file.")
    if not all(pod.has_time for pod in pods):
        notes.append("This variant has no times: requests come in file order, one per second.")
    return tuple(notes)


def _rows(folder: Path, stem: str, columns: tuple[str, ...]) -> Iterator[_Row]:
    """Yield the rows of a csv file, checked for missing columns and repeated names."""
    path = _find(folder, stem)
    lines = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    try:
        header = next(lines, list[str]())
        missing = [column for column in columns if column not in header]
        if missing:
            reason = (
                f"has no column {', '.join(missing)}; check that it is a file of the openb trace"
            )
            raise OpenbTraceError(path, reason, line=1)
        seen: set[str] = set()
        for values in lines:
            row = _row(path, lines.line_num, header, values)
            name = row.text(columns[0])
            if name in seen:
                raise row.error(columns[0], f"repeats {name!r}; fetch the file again")
            seen.add(name)
            yield row
    except csv.Error as error:
        reason = f"is not valid CSV ({error}); fetch the file again"
        raise OpenbTraceError(path, reason, line=lines.line_num) from error


def _row(path: Path, line: int, header: list[str], values: list[str]) -> _Row:
    if len(values) != len(header):
        reason = f"has {len(values)} values for {len(header)} columns; fetch the file again"
        column = header[len(values)] if len(values) < len(header) else None
        raise OpenbTraceError(path, reason, line=line, column=column)
    return _Row(path, line, dict(zip(header, values, strict=True)))


def _find(folder: Path, stem: str) -> Path:
    paths = [folder / f"{stem}.csv", folder / f"{stem}.csv.gz"]
    for path in paths:
        if path.is_file():
            return path
    prefix = re.sub(r"(?<=_list_).*", "", stem)
    there = sorted(path.name for path in folder.glob(f"{prefix}*.csv*"))
    reason = f"is not in {folder}, with or without .gz"
    found = f"that folder has {', '.join(there) or 'no such file'}"
    raise OpenbTraceError(
        paths[0], f"{reason}; {found}. Give the folder that holds the trace's csv files"
    )


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = f"cannot be read ({error}); fetch the file again"
        raise OpenbTraceError(path, reason) from error
