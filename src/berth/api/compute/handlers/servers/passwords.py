"""The administrator's password in responses, which clients of Nova expect.

No driver sets passwords in guests, and neither do most drivers of Nova. The field contains the
password that the guest would have; the setting `api.enable_instance_password` removes it.
"""

from berth.api.codec import UNSET, UnsetType
from berth.api.routing import Call


def password_of(call: Call, given: str | UnsetType | None) -> str | UnsetType:
    """Return the password that a response contains: the one in the request, or a new one.

    The result is UNSET if the setting `api.enable_instance_password` is false.
    """
    new_password = call.parts.new_password
    if new_password is None:
        return UNSET
    return given if isinstance(given, str) and given else new_password()
