"""Architectures of processors, by one name each."""

from collections.abc import Mapping

_ALIASES: Mapping[str, str] = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "i386": "i686",
    "i486": "i686",
    "i586": "i686",
    "powerpc": "ppc",
    "arm64": "aarch64",
}


def canonical_architecture(name: str) -> str:
    """Return the name that hosts report an architecture by; an unknown one in lower case."""
    lowered = name.lower()
    return _ALIASES.get(lowered, lowered)
