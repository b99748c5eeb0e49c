"""The folder of a host's guests is one host's."""

from pathlib import Path

import pytest

from berth.adapters.virt.guest_folder import claim_state_dir
from berth.domain.errors import DriverError


def test_a_host_keeps_its_folder(tmp_path: Path) -> None:
    """Whoever came first; nobody under another name, who would take its guests for left over."""
    claim_state_dir(tmp_path, "host-1")
    claim_state_dir(tmp_path, "host-1")
    with pytest.raises(DriverError, match=r"host-1.*host-2.*agent\.host"):
        claim_state_dir(tmp_path, "host-2")
    claim_state_dir(tmp_path, "host-1")


def test_a_mark_that_a_crash_has_left_empty_is_written_again(tmp_path: Path) -> None:
    """It says nothing, so it is nobody's."""
    (tmp_path / ".host").touch()
    claim_state_dir(tmp_path, "host-1")
    with pytest.raises(DriverError):
        claim_state_dir(tmp_path, "host-2")


def test_a_folder_that_cannot_be_written_to_is_said_so(tmp_path: Path) -> None:
    """With its name."""
    with pytest.raises(DriverError, match="none"):
        claim_state_dir(tmp_path / "none", "host-1")
