"""Spellings of UUIDs."""

import pytest

from berth.domain.uuids import canonical_uuid

UUID = "0aBcDeF1-0000-4000-8000-00000000000f"


@pytest.mark.parametrize(
    "text",
    [
        UUID,
        UUID.upper(),
        UUID.replace("-", ""),
        f"{{{UUID}}}",
        f"urn:uuid:{UUID}",
        f"URN:UUID:{UUID}",
    ],
)
def test_all_spellings_of_a_uuid_become_one(text: str) -> None:
    """Digits are lower case, in five groups."""
    assert canonical_uuid(text) == UUID.lower()


@pytest.mark.parametrize(
    "text", ["", "debian-12", "Debian", UUID[:-1], f"{UUID}0", f"{UUID}\n", UUID.replace("0", "g")]
)
def test_other_ids_stay_as_they_are(text: str) -> None:
    """Ids of configured images may have any form."""
    assert canonical_uuid(text) == text
