"""Removes passwords from URLs that appear in errors and logs."""

import re
from typing import Final

_HIDDEN: Final = "***"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
# Host, port and path. In a string of any other form, each part may belong to a password.
_PLACE: Final = re.compile(r"(\[[0-9A-Fa-f:.%]*\]|[^:/\[\]]*)(:[0-9]{1,5})?(/.*)?", re.DOTALL)
_ACCOUNT: Final = re.compile(r"://[^\n]*@")


def redact_url(url: str) -> str:
    """Return a URL without query and fragment, and with `***` for its user and password.

    The URL may be malformed, because most errors are about malformed URLs. Where the user and
    password end is then uncertain, so `***` replaces everything that may belong to them.
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
    """Return a text with `***` in place of the users and passwords of the URLs in it.

    In each line, `***` replaces everything between the first `://` and the last `@` after it.
    """
    return _ACCOUNT.sub(f"://{_HIDDEN}@", text)
