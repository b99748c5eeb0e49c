"""Error responses of the Identity API: `error` with a code, a message and a title."""

from http import HTTPStatus

from starlette.types import Scope, Send

from berth.api.answers import send_bytes
from berth.api.codec import View, encode
from berth.api.errors import HttpError


class IdentityFault(View):
    """The code, message and title of an error."""

    code: int
    message: str
    title: str


class RefusalAnswer(View):
    """The body of an error response."""

    error: IdentityFault


async def send_refusal(scope: Scope, send: Send, error: HttpError) -> None:
    """Send an error response."""
    headers = [(name.lower().encode(), text.encode()) for name, text in error.headers.items()]
    # The title is the standard phrase of the status, as in Keystone.
    title = HTTPStatus(error.status).phrase
    answer = RefusalAnswer(
        error=IdentityFault(code=error.status, message=error.message, title=title)
    )
    await send_bytes(scope, send, error.status, encode(answer), headers)
