"""Tests for the auditor's books of devices."""

import pytest

from berth.lab.auditor import AuditedDeviceShare, AuditError, Auditor, DeviceRequest, DeviceUsage
from berth.lab.workload import FleetHost

GPU = "CUSTOM_GPU_MILLI"
HOST = FleetHost("h", {"VCPU": 8}, devices=({GPU: 1000}, {GPU: 1000}))
HALF, WHOLE = {GPU: 500}, {GPU: 1000}


@pytest.fixture
def books() -> DeviceUsage:
    """Return the books of one host with two GPUs and one host without devices."""
    return DeviceUsage([HOST, FleetHost("bare", {"VCPU": 8})])


def test_every_way_is_tried(books: DeviceUsage) -> None:
    """A request fits if any assignment of its shares to devices fits."""
    books.book("h", [AuditedDeviceShare(0, {GPU: 400})], sign=1)
    assert books.find("h", DeviceRequest((HALF, WHOLE))) == (
        AuditedDeviceShare(1, WHOLE),
        AuditedDeviceShare(0, HALF),
    )
    assert books.find("h", DeviceRequest((WHOLE, WHOLE))) is None
    assert books.find("h", DeviceRequest((HALF, HALF, HALF))) is not None
    assert books.find("h", DeviceRequest((HALF, HALF, HALF), isolate=True)) is None
    assert books.find("bare", DeviceRequest((HALF,))) is None
    assert books.find("bare", DeviceRequest()) == ()


def test_giving_back_makes_room(books: DeviceUsage) -> None:
    """Shares that are given back are free again."""
    parts = [AuditedDeviceShare(0, WHOLE), AuditedDeviceShare(1, WHOLE)]
    books.book("h", parts, sign=1)
    assert books.find("h", DeviceRequest((HALF,))) is None
    books.book("h", parts, sign=-1)
    assert books.find("h", DeviceRequest((WHOLE, WHOLE), isolate=True)) is not None


@pytest.mark.parametrize(
    ("ask", "parts", "reason"),
    [
        (DeviceRequest((HALF,)), [], "other shares of devices than it requested"),
        (DeviceRequest((HALF,)), [AuditedDeviceShare(0, WHOLE)], "other shares of devices"),
        (DeviceRequest(), [AuditedDeviceShare(0, HALF)], "other shares of devices"),
        (
            DeviceRequest((HALF,)),
            [AuditedDeviceShare(2, HALF)],
            "a device that the host does not have",
        ),
        (
            DeviceRequest((HALF,)),
            [AuditedDeviceShare(-1, HALF)],
            "a device that the host does not have",
        ),
        (
            DeviceRequest((HALF, HALF), isolate=True),
            [AuditedDeviceShare(0, HALF)] * 2,
            "two shares of one",
        ),
        (
            DeviceRequest((HALF, WHOLE)),
            [AuditedDeviceShare(0, HALF), AuditedDeviceShare(0, WHOLE)],
            "takes 500 more of",
        ),
        (
            DeviceRequest(({"CUSTOM_X": 1},)),
            [AuditedDeviceShare(0, {"CUSTOM_X": 1})],
            "takes 1 more of CUSTOM_X",
        ),
    ],
)
def test_wrong_parts_are_told_of(
    books: DeviceUsage, ask: DeviceRequest, parts: list[AuditedDeviceShare], reason: str
) -> None:
    """Each broken rule about device shares is reported."""
    assert reason in "; ".join(books.broken("h", ask, parts))


def test_right_parts_are_silent(books: DeviceUsage) -> None:
    """Valid shares are not reported, and the check does not change the books."""
    ask, parts = (
        DeviceRequest((HALF, HALF)),
        [AuditedDeviceShare(0, HALF), AuditedDeviceShare(0, HALF)],
    )
    assert books.broken("h", ask, parts) == []
    assert books.broken("h", ask, parts) == []


def test_the_auditor_keeps_device_books() -> None:
    """A placed instance takes device shares and gives them back on release."""
    auditor = Auditor([HOST])
    ask = DeviceRequest((WHOLE, WHOLE), isolate=True)
    auditor.placed("i", "h", {"VCPU": 1})
    auditor.took("i", ask, auditor.parts_on("h", ask))
    assert auditor.fits({"VCPU": 1}) == ["h"]
    assert auditor.fits({"VCPU": 1}, devices=DeviceRequest((HALF,))) == []
    auditor.placed("j", "h", {"VCPU": 1})
    with pytest.raises(AuditError, match="takes 500 more of CUSTOM_GPU_MILLI than device 0 has"):
        auditor.took("j", DeviceRequest((HALF,)), [AuditedDeviceShare(0, HALF)])
    auditor.released("j")
    auditor.released("i")
    assert auditor.fits({"VCPU": 1}, devices=ask) == ["h"]
