"""The reference of settings, generated from the classes of the sections and from the commands."""

from collections.abc import Iterator, Mapping
from inspect import getdoc
from typing import Final

import click

from berth.cli.commands import serving
from berth.config.setting_facts import Process, SettingFacts, facts_of_settings, sections

_HEAD: Final = """\
# Settings

All settings of `berth up`, `berth api`, `berth scheduler`, `berth agent` and `berth placement`,
generated from `src/berth/config`. The sources of a setting, in rising precedence, are: its default,
the TOML file of `--config FILE`, the environment variable, the option of the command. Unknown keys
are rejected. Paths in the file are relative to it. An empty variable counts as not set; in a
variable the values of a list are separated by commas. `berth config check FILE` finds mistakes, and
`berth config show` tells where each value comes from.

```toml
[api]
listen = "127.0.0.1:8774"
[auth]
mode = "http_basic"
htpasswd = "users"
[ledger]
data_dir = "/var/lib/berth"
[policy]
path = "policy.toml"
```

With `noauth` or `noauth2` every caller is an administrator, so the API listens on loopback only,
unless `--insecure-listen` is given. In the other modes clients send passwords or tokens: serve
[HTTPS](../guides/operate.md#https).

A process reads its settings once, when it starts, so each change needs a restart. Of some files, a
running process reads the **content** again; the column *change* says when. If the new content is
invalid, the earlier content stays in force, and the log says why. An agent that uses the ledger
(`berth agent` without `agent.gateway_url`) also reads the settings of the ledger, the bus and the
policy.
"""
_COLUMNS: Final = ("setting", "type and bounds", "default", "read by", "change", "meaning")

_OPERATE: Final = "../guides/operate.md"
_KEYSTONE: Final = "../guides/keystone.md"
_RESTORING: Final = "../guides/moves.md#restoring-deleted-servers"
_VIRT: Final = "../guides/compute-hosts.md"
# Pages that explain more than the meaning: of a section as a whole, and of a single setting.
_PAGES: Final[Mapping[str, str]] = {
    "api.tls_certificate": f"[HTTPS]({_OPERATE}#https)",
    "api.trusted_proxies": f"[HTTPS]({_OPERATE}#https)",
    "console": "[VNC consoles](../guides/consoles.md)",
    "placement.policy_file": "[who may do what](http-api.md#who-may-do-what)",
    "auth": "[authentication](http-api.md#authentication)",
    "keystone": f"[Keystone]({_KEYSTONE})",
    "keystone.admin_roles": f"[roles]({_KEYSTONE}#roles)",
    "keystone.grace_s": f"[unavailability]({_KEYSTONE}#when-keystone-is-unavailable)",
    "ledger.url": f"[failover of PostgreSQL]({_OPERATE}#failover-of-postgresql)",
    "bus": f"[a broker between processes]({_OPERATE}#a-broker-between-processes)",
    "bus.notifications": "[notifications](notifications.md)",
    "gateway": f"[agents over the broker]({_OPERATE}#over-the-broker)",
    "policy.path": "[policy file](policy-file.md), [ready policies](policy-file.md#ready-policies)",
    "scheduler.reclaim_instance_interval_s": f"[restoring servers]({_RESTORING})",
    "quota": f"[quotas]({_OPERATE}#quotas)",
    "agent": f"[compute hosts]({_OPERATE}#compute-hosts)",
    "agent.isolated_pause_s": f"[isolated hosts]({_OPERATE}#isolated-hosts)",
    "agent.restart_pause_s": f"[guests that crash]({_VIRT}#guests-that-crash)",
    "agent.audit_interval_s": f"[audits]({_OPERATE}#audits)",
    "agent.fleet": f"[parts of a host]({_OPERATE}#parts-of-a-host)",
    "agent.cpu_allocation_ratio": f"[allocation ratios]({_OPERATE}#allocation-ratios)",
    "virt": f"[compute hosts with real guests]({_VIRT})",
    "virt.images": f"[images]({_VIRT}#images)",
    "virt.vnc": "[VNC consoles](../guides/consoles.md)",
    "tracking": f"[which instances a host has]({_OPERATE}#which-instances-a-host-has)",
    "attestation": f"[trusted hosts]({_OPERATE}#trusted-hosts)",
    "zones": "[zones](../guides/zones.md)",
    "log": "[log files](../guides/monitoring.md#log-files)",
    "audit": f"[audit log]({_OPERATE}#audit-log)",
    "metrics": "[monitoring](../guides/monitoring.md)",
    "metrics.flavors": "[capacity](../guides/monitoring.md#capacity)",
    "health.silent_share_max": f"[hosts]({_OPERATE}#hosts)",
}


def settings_page() -> str:
    """Return the reference of all settings, in Markdown."""
    options = options_of_settings()
    parts = [_HEAD]
    facts = list(facts_of_settings())
    for section, kind in sections().items():
        parts.append(f"\n## {section}\n\n{_introduction(section, kind)}\n\n")
        parts.append(f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n")
        parts += [
            _row(one, options.get(one.key, {}))
            for one in facts
            if one.key.partition(".")[0] == section
        ]
    return "".join(parts)


def options_of_settings() -> dict[str, dict[str, list[Process]]]:
    """Return the options that set each setting, with their commands, by `section.key`."""
    found: dict[str, dict[str, list[Process]]] = {}
    for process in Process:
        command: click.Command = getattr(serving, process)
        for parameter in command.params:
            section, _, key = (parameter.name or "").partition("__")
            if key:
                options = found.setdefault(f"{section}.{key}", {})
                options.setdefault(parameter.opts[0], []).append(process)
    return found


def _introduction(section: str, kind: type) -> str:
    first = (getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
    # The docstring may end with a file of the repository, which a link names better.
    first = first.partition("; see docs/")[0].removesuffix(".")
    page = _PAGES.get(section)
    return f"{first}. See {page}." if page else f"{first}."


def _row(one: SettingFacts, options: Mapping[str, list[Process]]) -> str:
    cells = (
        "<br>".join((f"`{one.key}`", f"`{one.variable}`", *_options(options))),
        "<br>".join(filter(None, (one.type, one.bounds))),
        f"`{one.default}`" if one.default else "",
        ", ".join(one.readers),
        f"restart; {one.reread}" if one.reread else "restart",
        _meaning(one),
    )
    return f"| {' | '.join(cells)} |\n"


def _options(options: Mapping[str, list[Process]]) -> Iterator[str]:
    for name, commands in options.items():
        yield f"`{name}` of {', '.join(commands)}"


def _meaning(one: SettingFacts) -> str:
    page = _PAGES.get(one.key)
    return f"{one.meaning} See {page}." if page else one.meaning
