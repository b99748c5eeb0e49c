"""The ready policies: policy files that ship with Berth and are chosen by name.

The settings need their names, and read them without loading the rules that policies are made of.
"""

from importlib.resources import files
from pathlib import Path

DEFAULT = "default"
"""The name of the policy that is in force if no other is set."""

READY = (DEFAULT, "pack", "balanced", "spread", "nova", "nova-pike", "openb")


def is_ready(policy: Path) -> bool:
    """Return whether a policy setting is the name of a ready policy and not the path of a file."""
    return str(policy) in READY


def ready_text(name: str) -> str:
    """Return the text of a ready policy's file."""
    return files("berth.config").joinpath("policies", f"{name}.toml").read_text("utf-8")
