"""Owning: the folder of a host's guests is one host's, and says so."""

from pathlib import Path
from typing import Final

from berth.domain.errors import DriverError

_OWNER: Final = ".host"


def own(state_dir: Path, host: str) -> None:
    """Take a folder for a host, which keeps it.

    An agent destroys what the ledger says to be on another host. Had its host another name since
    its last start, or another host the same folder, that would be all guests.

    Args:
        state_dir: of the guests; it is there.
        host: whose it is to be.

    Raises:
        DriverError: it is another host's, or cannot be written to.
    """
    path = state_dir / _OWNER
    try:
        try:
            with path.open("x") as file:
                file.write(host)
        except FileExistsError:
            owner = path.read_text()
            if owner and owner != host:
                reason = (
                    f"{state_dir} has the guests of host {owner!r}, and this is {host!r}; give "
                    "each host a folder of its own (virt.state_dir), and keep its name "
                    f"(agent.host). If the ledger says that they are on {host!r}, delete {path}"
                )
                raise DriverError(reason) from None
            if not owner:  # a crash came between
                path.write_text(host)
    except OSError as error:
        raise DriverError(f"{path}: {error.strerror}") from error
