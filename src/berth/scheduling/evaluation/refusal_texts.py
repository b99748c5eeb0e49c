"""Refusal texts: how they begin, and what of them may be told outside of a zone."""

from typing import Final

NO_HOST: Final = "No valid host was found"
GROUP_BROKEN: Final = "The policy of the server group would be broken"

_BEGINNINGS: Final = (NO_HOST, GROUP_BROKEN)


def without_reasons(message: str) -> str:
    """Return what another zone may read of a message that may be a refusal's.

    The reasons count hosts, and say how much room would do. What agents say of their work to the
    owners of instances does none of that, and is left as it is.
    """
    for beginning in _BEGINNINGS:
        if message.startswith(beginning):
            return f"{beginning}."
    return message
