"""Architectures by one name each."""

import pytest

from berth.scheduling.rules.architectures import canonical_architecture


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("amd64", "x86_64"),
        ("AMD64", "x86_64"),
        ("X86_64", "x86_64"),
        ("arm64", "aarch64"),
        ("", ""),
    ],
)
def test_aliases_have_one_name(name: str, canonical: str) -> None:
    """Whatever their case."""
    assert canonical_architecture(name) == canonical
