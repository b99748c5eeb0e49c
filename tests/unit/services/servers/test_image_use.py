"""Which deleted images servers need, and how often all servers are read to learn it."""

from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.rescue import with_rescue_image
from berth.domain.compute.server_image import ServerImage, deleted
from berth.domain.ledger.write import Put
from berth.ports.ledger import InstanceQuery
from berth.services.servers.image_use import ImageUse
from berth.testing.builders import make_instance, make_uuid
from tests.unit.api.cloud import FakeClock
from tests.unit.services.wiring import TappedLedger

BASE = make_instance(1)


def image(number: int, at_s: float) -> ServerImage:
    """Return an image that was deleted at a time."""
    return deleted(ServerImage(make_uuid("image", number), "x", "p", "u", BASE.uuid), at_s)


class Reads(TappedLedger):
    """A ledger that counts the lists of instances."""

    lists = 0

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """List the instances."""
        self.lists += 1
        return await super().instances(query)


async def test_created_and_rescued_servers_need_their_images() -> None:
    """A shelved server on no host needs its image too; a deleted server needs none."""
    ledger, clock = Reads(), FakeClock()
    now_s = clock.now_s()
    images = [image(number, now_s - 1000.0) for number in range(5)]
    ids = [Image(one.image_id) for one in images]
    shelved = replace(make_instance(2), image=ids[1], status=Status.SHELVED_OFFLOADED, host=None)
    rescued = replace(BASE, image=ids[0], status=Status.RESCUED)
    rescued = replace(rescued, extra=with_rescue_image(rescued, ids[2]))
    gone = replace(make_instance(3), image=ids[3], status=Status.DELETED)
    await ledger.commit([(Put(rescued), Put(shelved), Put(gone))])
    use = ImageUse(ledger, clock)
    assert [await use.needs(one) for one in images] == [True, True, True, False, False]
    assert ledger.lists == 1


@pytest.mark.parametrize(("deleted_s", "reads"), [(-1000.0, 1), (-100.0, 2)])
async def test_one_reading_answers_for_the_images_deleted_before_it(
    deleted_s: float, reads: int
) -> None:
    """A server that was requested before a deletion may be in the ledger only a little later."""
    ledger, clock = Reads(), FakeClock()
    use = ImageUse(ledger, clock)
    await use.needs(image(1, clock.now_s() - 1000.0))
    await clock.sleep(1.0)
    assert not await use.needs(image(2, clock.now_s() + deleted_s))
    assert ledger.lists == reads


async def test_a_reading_is_repeated_after_an_hour() -> None:
    """The data of an image is deleted in the end after the last server that needed it."""
    ledger, clock = Reads(), FakeClock()
    old = image(1, clock.now_s() - 1000.0)
    await ledger.commit([(Put(replace(BASE, image=Image(old.image_id))),)])
    use = ImageUse(ledger, clock)
    assert await use.needs(old)
    await ledger.commit([(Put(replace(BASE, status=Status.DELETED, revision=1)),)])
    assert await use.needs(old)
    await clock.sleep(3601.0)
    assert not await use.needs(old)
