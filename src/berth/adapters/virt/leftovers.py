"""Leftovers: files on a host that no guest there has."""

import os
import re
from collections.abc import Collection
from pathlib import Path

from berth.ports.virt import Leftover

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def folders_without(state_dir: Path, known: Collection[str]) -> list[Leftover]:
    """Return the folders that are named as those of guests are, and belong to none.

    Args:
        state_dir: where the folders of guests are.
        known: uuids of guests that have a record here, or run.
    """
    if not state_dir.is_dir():
        return []
    found = [
        leftover_of(path, path.name)
        for path in sorted(state_dir.iterdir())
        if _UUID.fullmatch(path.name) and path.name not in known and path.is_dir()
    ]
    return [one for one in found if one.since_s]


def leftover_of(path: Path, uuid: str) -> Leftover:
    """Return how much a folder takes, and when it was last written; 0 when it is gone."""
    since_s, size_bytes = 0.0, 0
    try:
        since_s = path.stat().st_mtime
        for entry in os.scandir(path):
            file = entry.stat(follow_symlinks=False)
            since_s, size_bytes = max(since_s, file.st_mtime), size_bytes + file.st_blocks * 512
    except OSError:
        pass  # somebody deletes it now
    return Leftover(uuid, since_s, size_bytes)
