"""Tests of live migration with the kernel of a distribution, for any driver."""

from berth.testing.kernel_guest import counts_of, starts_of
from tests.e2e.guest_cloud import KERNEL, GuestCloud, require_kernel, wait_until


class KernelMoves:
    """The tests; a subclass provides the fixture `cloud` with two hosts."""

    def test_a_kernel_does_not_notice_that_it_moves(self, cloud: GuestCloud) -> None:
        """A guest continues to count where it was, and later boots from the disk it took along."""
        require_kernel()
        uuid = cloud.create("linux", flavor="kernel-disk", image=KERNEL)
        source = cloud.host_of(uuid)
        target = cloud.other_than(source)
        wait_until(lambda: bool(counts_of(source.console(uuid))))
        before = counts_of(source.console(uuid))[-1]
        cloud.act(uuid, "os-migrateLive", {"host": None, "block_migration": "auto"})
        cloud.settled(uuid)
        assert cloud.host_of(uuid) is target
        cloud.check_is_only_at(uuid, target)
        wait_until(lambda: len(counts_of(target.console(uuid))) > 5)
        counted = counts_of(target.console(uuid))
        assert counted[0] > before
        assert counted == list(range(counted[0], counted[0] + len(counted)))
        assert starts_of(target.console(uuid)) == []
        cloud.act(uuid, "reboot", {"type": "HARD"})
        cloud.settled(uuid)
        wait_until(lambda: target.starts(uuid) == 1)
        assert starts_of(target.console(uuid))[0].boots == 2
