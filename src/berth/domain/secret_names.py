"""Recognises the names of fields whose values are secrets."""

import re
from functools import lru_cache
from typing import Final

_SECRETS: Final = re.compile(
    r"passw|adminpass|secret|token|authorization|auth_blob|api_?key|private_?key|user_?data",
    re.IGNORECASE,
)

HIDDEN: Final = "***"
"""The text in place of a secret."""


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Return whether the name of a field suggests that its value is a secret."""
    return _SECRETS.search(name) is not None
