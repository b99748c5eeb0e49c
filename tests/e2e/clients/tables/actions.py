"""What can be done with a server: stopped, resized, moved, shelved, and what Berth does not do."""

from tests.e2e.clients.expecting import (
    Command,
    lists_row,
    refused,
    says,
    settling,
    shows,
    shows_fields,
    usual,
)
from tests.e2e.clients.tables.servers import CREATE, HOST


def status(wanted: str, **fields: object) -> Command:
    """Expect the server to get a status."""
    return settling(shows("server show worker", status=wanted, **fields))


STEPS: tuple[Command, ...] = (
    usual(shows(f"{CREATE} --host fake-00000 worker", name="worker")),
    usual(status("ACTIVE")),
    usual(says("server stop worker")),
    usual(status("SHUTOFF")),
    refused("server pause worker", "409"),
    usual(says("server start worker")),
    usual(status("ACTIVE")),
    says("server pause worker"),
    status("PAUSED"),
    says("server unpause worker"),
    status("ACTIVE"),
    says("server suspend worker"),
    status("SUSPENDED"),
    says("server resume worker"),
    status("ACTIVE"),
    says("server reboot worker"),
    status("ACTIVE"),
    says("server reboot --hard worker"),
    status("ACTIVE"),
    says("server rescue worker"),
    status("RESCUE"),
    refused("server reboot --hard worker", "409"),
    says("server unrescue worker"),
    status("ACTIVE"),
    says("server lock worker"),
    says("server unlock worker"),
    says("console log show worker", r"\w"),
    says("nova stop worker", "has been accepted"),
    status("SHUTOFF"),
    says("nova start worker", "has been accepted"),
    status("ACTIVE"),
)

MOVES: tuple[Command, ...] = (
    says("server migrate --live-migration --host fake-00003 worker"),
    settling(shows_fields("server show worker", {"status": "ACTIVE", HOST: "fake-00003"})),
    says("server resize --flavor m1.small worker"),
    status("VERIFY_RESIZE"),
    says("server resize confirm worker"),
    status("ACTIVE", flavor="~m1.small"),
    refused("server resize --flavor m1.tiny worker", "disk"),
    shows("flavor create --vcpus 4 --ram 2048 --disk 20 m1.medium", vcpus=4),
    says("server resize --flavor m1.medium worker"),
    status("VERIFY_RESIZE"),
    says("server resize revert worker"),
    status("ACTIVE", flavor="~m1.small"),
    refused("server resize --flavor nope worker", "No Flavor found for nope"),
    says("server migrate worker"),
    status("VERIFY_RESIZE"),
    says("server migration confirm worker"),
    status("ACTIVE"),
    says("server shelve worker"),
    status("SHELVED_OFFLOADED"),
    says("server unshelve worker"),
    status("ACTIVE"),
    shows("server rebuild worker", name="worker"),
    status("ACTIVE"),
    shows("server image create --name saved --wait worker", name="saved"),
    lists_row("image list --private", {"Name": "saved", "Status": "active"}),
    says("image delete saved"),
    shows("server backup create --name weekly --type week --rotate 1 --wait worker", name="weekly"),
    says("image delete weekly"),
    refused("server evacuate worker", "still in use"),
    lists_row("server event list worker", {"Action": "stop"}),
    lists_row("server migration list", {"Status": "confirmed", "Type": "resize"}),
    says("nova instance-action-list worker", r"\| shelve "),
    says("nova migration-list", "confirmed"),
)

REFUSALS: tuple[Command, ...] = (
    refused("server dump create worker", "guests"),
    refused("server restore worker", "409"),
    says("server delete worker"),
)

COMMANDS = (*STEPS, *MOVES, *REFUSALS)
