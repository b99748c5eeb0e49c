"""Ready policies: the policy files that come with Berth, each with a name to choose it by."""

from importlib.resources import files
from pathlib import Path

DEFAULT = "default"
"""In force when no other is given."""

READY = (DEFAULT, "pack", "balanced", "spread", "nova", "nova-pike", "openb")


def is_ready(policy: Path) -> bool:
    """Tell whether what stands where a policy file may stand is the name of a ready policy."""
    return str(policy) in READY


def ready_text(name: str) -> str:
    """Return the text of a ready policy's file."""
    return files("berth.config").joinpath("policies", f"{name}.toml").read_text("utf-8")
