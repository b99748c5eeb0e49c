"""What of a refusal another zone may read."""

import pytest

from berth.scheduling.evaluation.explain import without_reasons


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "No valid host was found for 2 instances. Of 1,013 hosts, ...",
            "No valid host was found.",
        ),
        (
            "The policy of the server group would be broken: the host has 1 of at most 1 members.",
            "The policy of the server group would be broken.",
        ),
        ("The build failed on 2 hosts.", "The build failed on 2 hosts."),
        ("", ""),
    ],
)
def test_the_reasons_stay_here(message: str, told: str) -> None:
    """They count hosts; what agents say of their work does neither."""
    assert without_reasons(message) == told
