"""Removes passwords from URLs that appear in errors and logs."""

import re
from typing import Final

_HIDDEN: Final = "***"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
# Host, port and path; of a string in another form, any part may be a piece of a password.
_PLACE: Final = re.compile(r"(\[[0-9A-Fa-f:.%]*\]|[^:/\[\]]*)(:[0-9]{1,5})?(/.*)?", re.DOTALL)
_ACCOUNT: Final = re.compile(r"://[^\n]*@")


def redact_url(url: str) -> str:
    """Return a URL without user, password, query and fragment.

    The URL may be malformed, since that is what most errors are about. Where its account ends is
    then uncertain, so everything that may belong to it is replaced by `***`.
    """
    scheme, slashes, rest = url.partition("://")
    if not slashes or _SCHEME.fullmatch(scheme) is None:
        scheme, slashes, rest = "", "", url
    # The last `@` counts, because a password may contain others, and also `/`, `?` or `#`.
    _, account, place = rest.rpartition("@")
    place = re.split(r"[?#]", place, maxsplit=1)[0]
    if _PLACE.fullmatch(place) is None:
        place = _HIDDEN
    elif account:
        place = f"{_HIDDEN}@{place}"
    return f"{scheme}{slashes}{place}"


def redact_accounts(text: str) -> str:
    """Return a text in which the accounts of URLs are replaced by `***`."""
    return _ACCOUNT.sub(f"://{_HIDDEN}@", text)
