"""The reasons for which several drivers refuse an operation."""

from typing import Final

IS_TARGET: Final = (
    "it is the target of a live migration that is not complete; wait for the migration or cancel it"
)
"""The reason for refusing to start, stop or change a guest that waits for a live migration."""

IS_RESCUED: Final = (
    "it still runs from its rescue image, whose disk never leaves the host; hard reboot the "
    "instance first"
)
"""The reason for refusing the live migration of a guest that runs from its rescue image."""

NO_VNC: Final = (
    "the guest has had no VNC server since its start; set virt.vnc on its host, and stop and start "
    "the instance"
)
"""The reason for refusing the VNC console of a guest that runs without one."""
