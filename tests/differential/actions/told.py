"""Prints the schemas of Nova's bodies and answers; run by the interpreter of `.venv-nova`.

The output is a JSON object with the lists `bodies`, `answers` and `changes` (answers to PUT). Each
item has a name, the first and last minor version, and the JSON Schema.
"""

import importlib
import json
import sys

NEWEST = 104
BODIES = [
    ("evacuate", 1, 13, "evacuate.evacuate"),
    ("evacuate", 14, 28, "evacuate.evacuate_v214"),
    ("evacuate", 29, 67, "evacuate.evacuate_v229"),
    ("evacuate", 68, 94, "evacuate.evacuate_v268"),
    ("evacuate", 95, NEWEST, "evacuate.evacuate_v295"),
    ("lock", 1, 72, "lock_server.lock"),
    ("lock", 73, NEWEST, "lock_server.lock_v273"),
    ("unlock", 1, NEWEST, "lock_server.unlock"),
    ("migrate", 56, NEWEST, "migrate_server.migrate"),
    ("os-migrateLive", 1, 24, "migrate_server.migrate_live"),
    ("os-migrateLive", 25, 29, "migrate_server.migrate_live_v2_25"),
    ("os-migrateLive", 30, 67, "migrate_server.migrate_live_v2_30"),
    ("os-migrateLive", 68, NEWEST, "migrate_server.migrate_live_v2_68"),
    ("unshelve", 1, 76, "shelve.unshelve"),
    ("unshelve", 77, 90, "shelve.unshelve_v277"),
    ("unshelve", 91, NEWEST, "shelve.unshelve_v291"),
    ("shelve", 1, NEWEST, "shelve.shelve"),
    ("shelveOffload", 1, NEWEST, "shelve.shelve_offload"),
    ("os-resetState", 1, NEWEST, "admin_actions.reset_state"),
    ("reboot", 1, NEWEST, "servers.reboot"),
    ("resize", 1, NEWEST, "servers.resize"),
    ("confirmResize", 1, NEWEST, "servers.confirm_resize"),
    ("revertResize", 1, NEWEST, "servers.revert_resize"),
    ("os-start", 1, NEWEST, "servers.start_server"),
    ("os-stop", 1, NEWEST, "servers.stop_server"),
    ("pause", 1, NEWEST, "pause_server.pause"),
    ("unpause", 1, NEWEST, "pause_server.unpause"),
    ("suspend", 1, NEWEST, "suspend_server.suspend"),
    ("resume", 1, NEWEST, "suspend_server.resume"),
    ("rescue", 1, NEWEST, "rescue.rescue"),
    ("unrescue", 1, NEWEST, "rescue.unrescue"),
    ("restore", 1, NEWEST, "deferred_delete.restore"),
    ("forceDelete", 1, NEWEST, "deferred_delete.force_delete"),
    ("rebuild", 1, 18, "servers.rebuild"),
    ("rebuild", 19, 53, "servers.rebuild_v219"),
    ("rebuild", 54, 56, "servers.rebuild_v254"),
    ("rebuild", 57, 62, "servers.rebuild_v257"),
    ("rebuild", 63, 89, "servers.rebuild_v263"),
    ("rebuild", 90, 93, "servers.rebuild_v290"),
    ("rebuild", 94, NEWEST, "servers.rebuild_v294"),
]
ANSWERS = [
    ("moves", 1, 22, "migrations.index_response_v20"),
    ("moves", 23, 58, "migrations.index_response_v223"),
    ("moves", 59, 79, "migrations.index_response_v259"),
    ("moves", 80, NEWEST, "migrations.index_response_v280"),
    ("live", 23, 58, "server_migrations.index_response_v223"),
    ("live", 59, 79, "server_migrations.index_response_v259"),
    ("live", 80, NEWEST, "server_migrations.index_response_v280"),
    ("history", 1, 57, "instance_actions.index_response"),
    ("history", 58, NEWEST, "instance_actions.index_response_v258"),
    ("action", 1, 50, "instance_actions.show_response"),
    ("action", 51, 57, "instance_actions.show_response_v251"),
    ("action", 58, 61, "instance_actions.show_response_v258"),
    ("action", 62, 83, "instance_actions.show_response_v262"),
    ("action", 84, NEWEST, "instance_actions.show_response_v284"),
    ("quota", 1, 35, "quota_sets.show_response"),
    ("quota", 36, 56, "quota_sets.show_response_v236"),
    ("quota", 57, NEWEST, "quota_sets.show_response_v257"),
    ("defaults", 1, 35, "quota_sets.defaults_response"),
    ("defaults", 36, 56, "quota_sets.defaults_response_v236"),
    ("defaults", 57, NEWEST, "quota_sets.defaults_response_v257"),
    ("usages", 1, 35, "quota_sets.detail_response"),
    ("usages", 36, 56, "quota_sets.detail_response_v236"),
    ("usages", 57, NEWEST, "quota_sets.detail_response_v257"),
    ("class", 1, 49, "quota_classes.show_response"),
    ("class", 50, 56, "quota_classes.show_response_v250"),
    ("class", 57, NEWEST, "quota_classes.show_response_v257"),
    ("limits", 1, 35, "limits.index_response"),
    ("limits", 36, 38, "limits.index_response_v236"),
    ("limits", 57, NEWEST, "limits.index_response_v257"),
    ("key pairs", 1, 1, "keypairs.index_response"),
    ("key pairs", 2, 34, "keypairs.index_response_v22"),
    ("key pairs", 35, NEWEST, "keypairs.index_response_v235"),
    ("all usages", 1, 39, "simple_tenant_usage.index_response"),
    ("all usages", 40, NEWEST, "simple_tenant_usage.index_response_v240"),
    ("usage", 1, 39, "simple_tenant_usage.show_response"),
    ("usage", 40, NEWEST, "simple_tenant_usage.show_response_v240"),
    ("audits", 1, NEWEST, "instance_usage_audit_log.index_response"),
    ("hosts", 1, 42, "hosts.index_response"),
    ("host", 1, 42, "hosts.show_response"),
    ("password", 1, NEWEST, "server_password.index_response"),
    ("access", 1, NEWEST, "flavor_access.index_response"),
    ("key pair", 1, 1, "keypairs.show_response"),
    ("key pair", 2, NEWEST, "keypairs.show_response_v22"),
]
CHANGES = [
    ("quota", 1, 35, "quota_sets.update_response"),
    ("quota", 36, 56, "quota_sets.update_response_v236"),
    ("quota", 57, NEWEST, "quota_sets.update_response_v257"),
    ("class", 1, 49, "quota_classes.update_response"),
    ("class", 50, 56, "quota_classes.update_response_v250"),
    ("class", 57, NEWEST, "quota_classes.update_response_v257"),
]


def schema_of(name: str) -> object:
    """Return a schema by `module.name`."""
    module, _, attribute = name.partition(".")
    found = importlib.import_module(f"nova.api.openstack.compute.schemas.{module}")
    schema: object = getattr(found, attribute)
    return schema


def main() -> None:
    """Print the schemas as JSON."""
    told = {
        kind: [(what, since, until, schema_of(name)) for what, since, until, name in rows]
        for kind, rows in (("bodies", BODIES), ("answers", ANSWERS), ("changes", CHANGES))
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
