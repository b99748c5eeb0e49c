"""Device books: who has which part of which device, and whether that can be right."""

import pytest

from berth.lab.auditor import AuditError, Auditor
from berth.lab.device_books import DeviceAsk, DeviceBooks, DevicePart
from berth.lab.workload import FleetHost

GPU = "CUSTOM_GPU_MILLI"
HOST = FleetHost("h", {"VCPU": 8}, devices=({GPU: 1000}, {GPU: 1000}))
HALF, WHOLE = {GPU: 500}, {GPU: 1000}


@pytest.fixture
def books() -> DeviceBooks:
    """The books of one host with two GPUs."""
    return DeviceBooks([HOST, FleetHost("bare", {"VCPU": 8})])


def test_every_way_is_tried(books: DeviceBooks) -> None:
    """What is asked for fits as long as any order of devices does."""
    books.book("h", [DevicePart(0, {GPU: 400})], sign=1)
    assert books.find("h", DeviceAsk((HALF, WHOLE))) == (DevicePart(1, WHOLE), DevicePart(0, HALF))
    assert books.find("h", DeviceAsk((WHOLE, WHOLE))) is None
    assert books.find("h", DeviceAsk((HALF, HALF, HALF))) is not None
    assert books.find("h", DeviceAsk((HALF, HALF, HALF), isolate=True)) is None
    assert books.find("bare", DeviceAsk((HALF,))) is None
    assert books.find("bare", DeviceAsk()) == ()


def test_giving_back_makes_room(books: DeviceBooks) -> None:
    """The books are as they were."""
    parts = [DevicePart(0, WHOLE), DevicePart(1, WHOLE)]
    books.book("h", parts, sign=1)
    assert books.find("h", DeviceAsk((HALF,))) is None
    books.book("h", parts, sign=-1)
    assert books.find("h", DeviceAsk((WHOLE, WHOLE), isolate=True)) is not None


@pytest.mark.parametrize(
    ("ask", "parts", "reason"),
    [
        (DeviceAsk((HALF,)), [], "other parts of devices than it asked for"),
        (DeviceAsk((HALF,)), [DevicePart(0, WHOLE)], "other parts of devices"),
        (DeviceAsk(), [DevicePart(0, HALF)], "other parts of devices"),
        (DeviceAsk((HALF,)), [DevicePart(2, HALF)], "a device that the host does not have"),
        (DeviceAsk((HALF,)), [DevicePart(-1, HALF)], "a device that the host does not have"),
        (DeviceAsk((HALF, HALF), isolate=True), [DevicePart(0, HALF)] * 2, "two parts of one"),
        (DeviceAsk((HALF, WHOLE)), [DevicePart(0, HALF), DevicePart(0, WHOLE)], "takes 500 of"),
        (DeviceAsk(({"CUSTOM_X": 1},)), [DevicePart(0, {"CUSTOM_X": 1})], "takes 1 of CUSTOM_X"),
    ],
)
def test_wrong_parts_are_told_of(
    books: DeviceBooks, ask: DeviceAsk, parts: list[DevicePart], reason: str
) -> None:
    """Each rule has its words; what is right has none."""
    assert reason in "; ".join(books.broken("h", ask, parts))


def test_right_parts_are_silent(books: DeviceBooks) -> None:
    """Telling changes nothing."""
    ask, parts = DeviceAsk((HALF, HALF)), [DevicePart(0, HALF), DevicePart(0, HALF)]
    assert books.broken("h", ask, parts) == []
    assert books.broken("h", ask, parts) == []


def test_the_auditor_keeps_device_books() -> None:
    """A placed instance takes parts, and gives them back when it goes."""
    auditor = Auditor([HOST])
    ask = DeviceAsk((WHOLE, WHOLE), isolate=True)
    auditor.placed("i", "h", {"VCPU": 1})
    auditor.took("i", ask, auditor.parts_on("h", ask))
    assert auditor.fits({"VCPU": 1}) == ["h"]
    assert auditor.fits({"VCPU": 1}, devices=DeviceAsk((HALF,))) == []
    auditor.placed("j", "h", {"VCPU": 1})
    with pytest.raises(AuditError, match="takes 500 of CUSTOM_GPU_MILLI more than device 0 has"):
        auditor.took("j", DeviceAsk((HALF,)), [DevicePart(0, HALF)])
    auditor.released("j")
    auditor.released("i")
    assert auditor.fits({"VCPU": 1}, devices=ask) == ["h"]
