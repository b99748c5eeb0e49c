"""Runs scenarios of Rally in one process; `.venv-rally` runs this.

Usage: python -m tests.e2e.rally.suite RALLY_CONF ENVIRONMENT TASK RESULTS

ENVIRONMENT has the addresses and users of the cloud, and TASK the arguments and the runner of each
scenario, both as JSON in the formats of Rally. Writes a JSON object with the names of all scenarios
that Rally has for Nova (`scenarios`), the status of the task (`status`), and what was wrong in each
scenario that ran (`ran`: a list of texts by name, empty where it passed). Rally's own program
starts one more process for each of the database, the environment, the task and the report.
"""

import json
import sys
from pathlib import Path
from typing import Any


def faults(workload: dict[str, Any]) -> list[str]:
    """Return what was wrong in a workload: failed criteria and the errors of its iterations.

    Raises:
        KeyError: a part of Rally's results is missing.
    """
    criteria = workload["sla_results"].get("sla", [])
    found = [one["detail"] for one in criteria if not one["success"]]
    found += [" ".join(map(str, one["error"])) for one in workload["data"] if one["error"]]
    if not workload["pass_sla"] or not workload["data"]:
        found.append(f"{len(workload['data'])} iterations, pass_sla is {workload['pass_sla']}")
    return found


def main(conf: Path, environment: Path, task: Path, results: Path) -> None:
    """Create a database and an environment, run the task, and write its results."""
    from rally import api  # type: ignore[import-not-found] # noqa: PLC0415
    from rally.common import db  # type: ignore[import-not-found] # noqa: PLC0415
    from rally.env import env_mgr  # type: ignore[import-not-found] # noqa: PLC0415
    from rally.task import engine, scenario  # type: ignore[import-not-found] # noqa: PLC0415

    # Each scenario ends with the thread that looks every two seconds whether the task is aborted.
    # Nothing aborts this task, so the thread waits only for the end of the scenario.
    engine.ResultConsumer.wait_and_abort = lambda consumer: consumer.is_done.wait()
    rally = api.API(config_args=["--config-file", str(conf)], skip_db_check=True)
    db.schema.schema_create()
    spec = json.loads(environment.read_text("utf-8"))
    cloud = env_mgr.EnvManager.create("berth", spec)
    asked = json.loads(task.read_text("utf-8"))
    # `start` cannot create the task itself: it passes a column that the table no longer has.
    uuid = rally.task.create(deployment=cloud.uuid)["uuid"]
    rally.task.start(deployment=cloud.uuid, config=asked, task=uuid)
    done = rally.task.get(task_id=uuid, detailed=True)
    ran: dict[str, list[str]] = {}
    for subtask in done["subtasks"]:
        for workload in subtask["workloads"]:
            ran.setdefault(workload["name"], []).extend(faults(workload))
    names = sorted({one.get_name() for one in scenario.Scenario.get_all()})
    found = {
        "scenarios": [name for name in names if name.startswith("Nova")],
        "status": done["status"],
        "ran": ran,
    }
    results.write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]))
