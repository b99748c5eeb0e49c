"""The figures of the Placement benchmarks to which floors may apply."""

from collections.abc import Sequence

from bench.placement.measuring import SizeTimes, TrialTimes


def placement_measures(trials: Sequence[TrialTimes], sizes: SizeTimes | None) -> dict[str, float]:
    """Return the figures by name; `vs_real` is the ratio that counts in a case."""
    measures: dict[str, float] = {}
    for one in trials:
        key = f"placement.{one.name}"
        measures[f"{key}.server_cpu_ms"] = one.berth.server_cpu_ms
        measures[f"{key}.resident_mib"] = one.resident_mib
        if one.clients > 1:
            measures[f"{key}.per_s"] = one.berth.per_s
            measures[f"{key}.conflicts"] = one.berth.conflicts
        if one.ratio is not None and one.by_cpu is not None:
            measures[f"{key}.vs_real"] = one.ratio.median
            measures[f"{key}.vs_real_low"] = one.ratio.low
            measures[f"{key}.vs_real_high"] = one.ratio.high
            measures[f"{key}.cpu_vs_real"] = one.by_cpu.median
    measures |= _more_groups(trials)
    if sizes is not None:
        measures["placement.resident_mib"] = sizes.resident_mib
        least = sizes.one_provider[0]
        for more in sizes.one_provider[1:]:
            name = f"placement.one_provider.{more.providers}_vs_{least.providers}"
            measures[name] = more.ratio
    return measures


def _more_groups(trials: Sequence[TrialTimes]) -> dict[str, float]:
    wide = [one for one in trials if one.name.startswith("wide_")]
    if len(wide) != 2:
        return {}
    few, more = wide
    ratio = more.berth.server_cpu_ms / few.berth.server_cpu_ms
    return {f"placement.{more.name}_vs_{few.name.removeprefix('wide_')}": round(ratio, 2)}
